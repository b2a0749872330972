CREATE TABLE "bucket_configurations" (
	"bucket_id" uuid PRIMARY KEY NOT NULL,
	"cors" jsonb,
	"tags" jsonb,
	"updated_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "bucket_configurations" ADD CONSTRAINT "bucket_configurations_bucket_id_buckets_id_fk" FOREIGN KEY ("bucket_id") REFERENCES "public"."buckets"("id") ON DELETE cascade ON UPDATE no action;