CREATE TABLE "idempotent_requests" (
	"caller_id" text NOT NULL,
	"operation" text NOT NULL,
	"key" text NOT NULL,
	"ciphertext" "bytea",
	"kek_id" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "idempotent_requests_caller_id_operation_key_pk" PRIMARY KEY("caller_id","operation","key")
);
--> statement-breakpoint
CREATE INDEX "idempotent_requests_by_age" ON "idempotent_requests" USING btree ("created_at");