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
      LOCK TABLE deployments, artifacts, blobs IN SHARE ROW EXCLUSIVE MODE;
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
CREATE TABLE "deployment_fallbacks" (
	"deployment_id" uuid NOT NULL,
	"path" text collate "C" NOT NULL,
	"sha256" "bytea" NOT NULL,
	"bytes" bigint NOT NULL,
	CONSTRAINT "deployment_fallbacks_deployment_id_path_pk" PRIMARY KEY("deployment_id","path")
);
--> statement-breakpoint
CREATE TABLE "isr_claims" (
	"deployment_id" uuid NOT NULL,
	"key" "bytea" NOT NULL,
	"until" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "isr_claims_deployment_id_key_pk" PRIMARY KEY("deployment_id","key")
);
--> statement-breakpoint
CREATE TABLE "isr_data" (
	"deployment_id" uuid NOT NULL,
	"key" text NOT NULL,
	"value" "bytea" NOT NULL,
	"tags" text[] NOT NULL,
	"bytes" bigint NOT NULL,
	"stored_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "isr_data_deployment_id_key_pk" PRIMARY KEY("deployment_id","key")
);
--> statement-breakpoint
CREATE TABLE "isr_pages" (
	"deployment_id" uuid NOT NULL,
	"key" "bytea" NOT NULL,
	"path" text collate "C" NOT NULL,
	"status" smallint NOT NULL,
	"headers" jsonb NOT NULL,
	"tags" text[] NOT NULL,
	"blob_id" uuid NOT NULL,
	"bytes" bigint NOT NULL,
	"begun_at" timestamp (3) with time zone NOT NULL,
	"fresh_until" timestamp (3) with time zone,
	"stale_until" timestamp (3) with time zone,
	CONSTRAINT "isr_pages_deployment_id_key_pk" PRIMARY KEY("deployment_id","key")
);
--> statement-breakpoint
CREATE TABLE "isr_tags" (
	"deployment_id" uuid NOT NULL,
	"tag" text NOT NULL,
	"stale_at" timestamp (3) with time zone NOT NULL,
	"expired_at" timestamp (3) with time zone,
	CONSTRAINT "isr_tags_deployment_id_tag_pk" PRIMARY KEY("deployment_id","tag")
);
--> statement-breakpoint
CREATE TABLE "isr_totals" (
	"deployment_id" uuid PRIMARY KEY NOT NULL,
	"page_bytes" bigint DEFAULT 0 NOT NULL,
	"pages" bigint DEFAULT 0 NOT NULL,
	"data_bytes" bigint DEFAULT 0 NOT NULL,
	"data" bigint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
ALTER TABLE "deployment_fallbacks" ADD CONSTRAINT "deployment_fallbacks_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployment_fallbacks" ADD CONSTRAINT "deployment_fallbacks_sha256_artifacts_sha256_fk" FOREIGN KEY ("sha256") REFERENCES "public"."artifacts"("sha256") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "isr_claims" ADD CONSTRAINT "isr_claims_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "isr_data" ADD CONSTRAINT "isr_data_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "isr_pages" ADD CONSTRAINT "isr_pages_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "isr_pages" ADD CONSTRAINT "isr_pages_blob_id_blobs_id_fk" FOREIGN KEY ("blob_id") REFERENCES "public"."blobs"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "isr_tags" ADD CONSTRAINT "isr_tags_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "isr_totals" ADD CONSTRAINT "isr_totals_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "deployment_fallbacks_by_sha256" ON "deployment_fallbacks" USING btree ("sha256");--> statement-breakpoint
CREATE INDEX "isr_claims_by_time" ON "isr_claims" USING btree ("until");--> statement-breakpoint
CREATE INDEX "isr_data_by_age" ON "isr_data" USING btree ("deployment_id","stored_at");--> statement-breakpoint
CREATE INDEX "isr_pages_by_age" ON "isr_pages" USING btree ("deployment_id","begun_at");--> statement-breakpoint
CREATE INDEX "isr_pages_by_blob" ON "isr_pages" USING btree ("blob_id");
--> statement-breakpoint
CREATE TRIGGER isr_pages_unlinked AFTER DELETE ON "isr_pages" REFERENCING OLD TABLE AS unlinked
  FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();
