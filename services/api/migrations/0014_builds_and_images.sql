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
      LOCK TABLE organizations, environments, deployments, deployment_functions, artifacts, blobs IN SHARE ROW EXCLUSIVE MODE;
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
CREATE TABLE "build_caches" (
	"environment_id" uuid NOT NULL,
	"key" text NOT NULL,
	"sha256" "bytea" NOT NULL,
	"bytes" bigint NOT NULL,
	"used_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "build_caches_environment_id_key_pk" PRIMARY KEY("environment_id","key")
);
--> statement-breakpoint
CREATE TABLE "function_links" (
	"function_id" uuid NOT NULL,
	"path" text collate "C" NOT NULL,
	"target" text NOT NULL,
	CONSTRAINT "function_links_function_id_path_pk" PRIMARY KEY("function_id","path")
);
--> statement-breakpoint
CREATE TABLE "image_caches" (
	"deployment_id" uuid PRIMARY KEY NOT NULL,
	"epoch" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "image_purges" (
	"deployment_id" uuid NOT NULL,
	"source" text collate "C" NOT NULL,
	"epoch" bigint NOT NULL,
	"purged_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "image_purges_deployment_id_source_pk" PRIMARY KEY("deployment_id","source")
);
--> statement-breakpoint
CREATE TABLE "image_totals" (
	"organization_id" uuid PRIMARY KEY NOT NULL,
	"bytes" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "image_variants" (
	"deployment_id" uuid NOT NULL,
	"key" "bytea" NOT NULL,
	"organization_id" uuid NOT NULL,
	"source" text collate "C" NOT NULL,
	"blob_id" uuid NOT NULL,
	"bytes" bigint NOT NULL,
	"content_type" text NOT NULL,
	"last_used_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "image_variants_deployment_id_key_pk" PRIMARY KEY("deployment_id","key")
);
--> statement-breakpoint
ALTER TABLE "build_caches" ADD CONSTRAINT "build_caches_environment_id_environments_id_fk" FOREIGN KEY ("environment_id") REFERENCES "public"."environments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "build_caches" ADD CONSTRAINT "build_caches_sha256_artifacts_sha256_fk" FOREIGN KEY ("sha256") REFERENCES "public"."artifacts"("sha256") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "function_links" ADD CONSTRAINT "function_links_function_id_deployment_functions_id_fk" FOREIGN KEY ("function_id") REFERENCES "public"."deployment_functions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "image_caches" ADD CONSTRAINT "image_caches_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "image_purges" ADD CONSTRAINT "image_purges_deployment_id_image_caches_deployment_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."image_caches"("deployment_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "image_totals" ADD CONSTRAINT "image_totals_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "image_variants" ADD CONSTRAINT "image_variants_deployment_id_image_caches_deployment_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."image_caches"("deployment_id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "image_variants" ADD CONSTRAINT "image_variants_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "image_variants" ADD CONSTRAINT "image_variants_blob_id_blobs_id_fk" FOREIGN KEY ("blob_id") REFERENCES "public"."blobs"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "build_caches_by_sha256" ON "build_caches" USING btree ("sha256");--> statement-breakpoint
CREATE INDEX "build_caches_by_use" ON "build_caches" USING btree ("used_at");--> statement-breakpoint
CREATE INDEX "image_purges_by_time" ON "image_purges" USING btree ("purged_at");--> statement-breakpoint
CREATE INDEX "image_variants_by_source" ON "image_variants" USING btree ("deployment_id","source");--> statement-breakpoint
CREATE INDEX "image_variants_by_use" ON "image_variants" USING btree ("organization_id","last_used_at");--> statement-breakpoint
CREATE INDEX "image_variants_by_blob" ON "image_variants" USING btree ("blob_id");
--> statement-breakpoint
CREATE TRIGGER image_variants_unlinked AFTER DELETE ON "image_variants" REFERENCING OLD TABLE AS unlinked
  FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();
--> statement-breakpoint
-- In the order of organizations, so that two statements never wait for each other in a circle. What goes with its organization has
-- no total any more.
CREATE FUNCTION count_image_variants_in() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO image_totals (organization_id, bytes)
    SELECT organization_id, sum(bytes) FROM after GROUP BY organization_id ORDER BY organization_id
    ON CONFLICT (organization_id) DO UPDATE SET bytes = image_totals.bytes + excluded.bytes;
  RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE FUNCTION count_image_variants_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE image_totals t SET bytes = t.bytes - gone.bytes
    FROM (SELECT organization_id, sum(bytes) AS bytes FROM before GROUP BY organization_id ORDER BY organization_id) gone
    WHERE t.organization_id = gone.organization_id;
  RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE TRIGGER image_variants_counted_in AFTER INSERT ON "image_variants" REFERENCING NEW TABLE AS after
  FOR EACH STATEMENT EXECUTE FUNCTION count_image_variants_in();
--> statement-breakpoint
CREATE TRIGGER image_variants_counted_out AFTER DELETE ON "image_variants" REFERENCING OLD TABLE AS before
  FOR EACH STATEMENT EXECUTE FUNCTION count_image_variants_out();
