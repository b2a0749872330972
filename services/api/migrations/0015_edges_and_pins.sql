CREATE TABLE "edges" (
	"id" uuid PRIMARY KEY NOT NULL,
	"internal_url" text NOT NULL,
	"lease_until" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sticky_pins" (
	"function_id" uuid NOT NULL,
	"key_hash" "bytea" NOT NULL,
	"edge_id" uuid NOT NULL,
	"slot" integer,
	"instance" uuid,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "sticky_pins_function_id_key_hash_pk" PRIMARY KEY("function_id","key_hash")
);
--> statement-breakpoint
ALTER TABLE "sticky_pins" ADD CONSTRAINT "sticky_pins_function_id_deployment_functions_id_fk" FOREIGN KEY ("function_id") REFERENCES "public"."deployment_functions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "sticky_pins_expired" ON "sticky_pins" USING btree ("expires_at");