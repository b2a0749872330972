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
      LOCK TABLE buckets IN SHARE ROW EXCLUSIVE MODE;
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
CREATE TABLE "bucket_configurations" (
	"bucket_id" uuid PRIMARY KEY NOT NULL,
	"cors" jsonb,
	"tags" jsonb,
	"updated_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "bucket_configurations" ADD CONSTRAINT "bucket_configurations_bucket_id_buckets_id_fk" FOREIGN KEY ("bucket_id") REFERENCES "public"."buckets"("id") ON DELETE cascade ON UPDATE no action;