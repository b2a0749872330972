-- The tables that the release before writes to, locked all or none: its transactions take them in more than one order, and one that
-- waits for this migration while this waits for it is ended as a deadlock after a second. Five waits of 150 ms are shorter.
DO $$
DECLARE
  timeout_before text := current_setting('lock_timeout');
  gives_up_at timestamptz := clock_timestamp() + interval '10 seconds';
BEGIN
  LOOP
    BEGIN
      SET LOCAL lock_timeout = '150ms';
      LOCK TABLE organizations, buckets, ONLY request_logs IN SHARE ROW EXCLUSIVE MODE;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      IF clock_timestamp() > gives_up_at THEN RAISE; END IF;
    END;
    PERFORM pg_sleep(0.05);
  END LOOP;
  PERFORM set_config('lock_timeout', timeout_before, true);
END
$$;
--> statement-breakpoint
CREATE TABLE "audit_events" (
	"id" uuid PRIMARY KEY NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"actor" text NOT NULL,
	"action" text NOT NULL,
	"subject" text NOT NULL,
	"details" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "bucket_configurations" (
	"bucket_id" uuid PRIMARY KEY NOT NULL,
	"cors" jsonb,
	"tags" jsonb,
	"updated_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "request_place_counts" (
	"application_id" uuid NOT NULL,
	"hour" timestamp (3) with time zone NOT NULL,
	"region" text NOT NULL,
	"edge_location" text NOT NULL,
	"storage_bucket_id" text NOT NULL,
	"requests" bigint NOT NULL,
	CONSTRAINT "request_place_counts_key" PRIMARY KEY("application_id","hour","region","edge_location","storage_bucket_id")
);
--> statement-breakpoint
CREATE TABLE "stored_bytes" (
	"organization_id" uuid PRIMARY KEY NOT NULL,
	"bytes" bigint NOT NULL,
	"trashed_bytes" bigint NOT NULL,
	"uploading_bytes" bigint NOT NULL,
	"is_full" boolean NOT NULL,
	"measured_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "bucket_configurations" ADD CONSTRAINT "bucket_configurations_bucket_id_buckets_id_fk" FOREIGN KEY ("bucket_id") REFERENCES "public"."buckets"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "stored_bytes" ADD CONSTRAINT "stored_bytes_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "audit_events_by_subject" ON "audit_events" USING btree ("subject");--> statement-breakpoint
-- Of the days that come: building it for those that are there would keep their writers waiting, and they are gone within the retention.
CREATE INDEX "request_logs_served_by" ON ONLY "request_logs" USING btree ("application_id",coalesce("served_by"->'storageObject'->>'id', "served_by"->'deploymentAsset'->>'id', "served_by"->'deploymentFunction'->>'id'),"id");