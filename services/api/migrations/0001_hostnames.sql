CREATE TABLE "hostnames" (
	"id" uuid PRIMARY KEY NOT NULL,
	"application_id" uuid NOT NULL,
	"type" text NOT NULL,
	"label" varchar(63) NOT NULL,
	"source" text NOT NULL,
	"deployment_id" uuid,
	"branch_id" uuid,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "hostnames_type" CHECK ("hostnames"."type" in ('DEPLOYMENT', 'BRANCH', 'APP')),
	CONSTRAINT "hostnames_source" CHECK ("hostnames"."source" in ('system', 'user'))
);
--> statement-breakpoint
ALTER TABLE "hostnames" ADD CONSTRAINT "hostnames_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "hostnames_label" ON "hostnames" USING btree ("label");--> statement-breakpoint
CREATE UNIQUE INDEX "hostnames_production" ON "hostnames" USING btree ("application_id") WHERE "hostnames"."type" = 'APP';--> statement-breakpoint
CREATE INDEX "hostnames_by_application" ON "hostnames" USING btree ("application_id","id");