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
      LOCK TABLE organizations, applications, blobs IN SHARE ROW EXCLUSIVE MODE;
      LOCK TABLE environments IN ACCESS EXCLUSIVE MODE;
      LOCK TABLE hostnames IN SHARE ROW EXCLUSIVE MODE;
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
CREATE TABLE "artifact_encodings" (
	"sha256" "bytea" NOT NULL,
	"encoding" text NOT NULL,
	"blob_id" uuid,
	"bytes" bigint NOT NULL,
	CONSTRAINT "artifact_encodings_sha256_encoding_pk" PRIMARY KEY("sha256","encoding"),
	CONSTRAINT "artifact_encodings_encoding" CHECK ("artifact_encodings"."encoding" in ('br', 'gzip'))
);
--> statement-breakpoint
CREATE TABLE "artifacts" (
	"sha256" "bytea" PRIMARY KEY NOT NULL,
	"blob_id" uuid NOT NULL,
	"bytes" bigint NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "build_logs" (
	"deployment_id" uuid NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"id" uuid NOT NULL,
	"type" text NOT NULL,
	"message" text NOT NULL,
	CONSTRAINT "build_logs_deployment_id_created_at_pk" PRIMARY KEY("deployment_id","created_at"),
	CONSTRAINT "build_logs_id" UNIQUE("deployment_id","id")
);
--> statement-breakpoint
CREATE TABLE "deployment_counts" (
	"application_id" uuid NOT NULL,
	"status" text NOT NULL,
	"deployments" bigint NOT NULL,
	CONSTRAINT "deployment_counts_application_id_status_pk" PRIMARY KEY("application_id","status")
);
--> statement-breakpoint
CREATE TABLE "deployment_files" (
	"deployment_id" uuid NOT NULL,
	"path" text collate "C" NOT NULL,
	"sha256" "bytea" NOT NULL,
	"bytes" bigint NOT NULL,
	"content_type" text NOT NULL,
	CONSTRAINT "deployment_files_deployment_id_path_pk" PRIMARY KEY("deployment_id","path")
);
--> statement-breakpoint
CREATE TABLE "deployments" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"application_id" uuid NOT NULL,
	"environment_id" uuid NOT NULL,
	"seq" bigint NOT NULL,
	"status" text NOT NULL,
	"label" varchar(63) NOT NULL,
	"root_directory" text,
	"created_by" jsonb NOT NULL,
	"failure_reason" text,
	"attempt" integer DEFAULT 0 NOT NULL,
	"lease_until" timestamp (3) with time zone,
	"deadline_at" timestamp (3) with time zone,
	"upload_id" uuid,
	"completed_parts" text,
	"archive_bytes" bigint,
	"size_bytes" bigint,
	"build_started_at" timestamp (3) with time zone,
	"build_ended_at" timestamp (3) with time zone,
	"last_log_at" timestamp (3) with time zone,
	"output" jsonb,
	"variables" jsonb,
	"sealed_variables" text,
	"activated_at" timestamp (3) with time zone,
	"pinned_until" timestamp (3) with time zone,
	"retired_at" timestamp (3) with time zone,
	"files_removed_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "deployments_label" UNIQUE("label"),
	CONSTRAINT "deployments_seq" UNIQUE("environment_id","seq"),
	CONSTRAINT "deployments_status" CHECK ("deployments"."status" in ('PENDING', 'QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING', 'ACTIVE', 'FAILED'))
);
--> statement-breakpoint
ALTER TABLE "environments" ADD COLUMN "current_deployment_id" uuid;--> statement-breakpoint
ALTER TABLE "environments" ADD COLUMN "current_seq" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "environments" ADD COLUMN "last_seq" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "artifact_encodings" ADD CONSTRAINT "artifact_encodings_sha256_artifacts_sha256_fk" FOREIGN KEY ("sha256") REFERENCES "public"."artifacts"("sha256") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "artifact_encodings" ADD CONSTRAINT "artifact_encodings_blob_id_blobs_id_fk" FOREIGN KEY ("blob_id") REFERENCES "public"."blobs"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "artifacts" ADD CONSTRAINT "artifacts_blob_id_blobs_id_fk" FOREIGN KEY ("blob_id") REFERENCES "public"."blobs"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "build_logs" ADD CONSTRAINT "build_logs_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployment_counts" ADD CONSTRAINT "deployment_counts_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployment_files" ADD CONSTRAINT "deployment_files_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployment_files" ADD CONSTRAINT "deployment_files_sha256_artifacts_sha256_fk" FOREIGN KEY ("sha256") REFERENCES "public"."artifacts"("sha256") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployments" ADD CONSTRAINT "deployments_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployments" ADD CONSTRAINT "deployments_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployments" ADD CONSTRAINT "deployments_environment_id_environments_id_fk" FOREIGN KEY ("environment_id") REFERENCES "public"."environments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "artifact_encodings_by_blob" ON "artifact_encodings" USING btree ("blob_id");--> statement-breakpoint
CREATE INDEX "artifacts_by_blob" ON "artifacts" USING btree ("blob_id");--> statement-breakpoint
CREATE INDEX "deployment_files_by_sha256" ON "deployment_files" USING btree ("sha256");--> statement-breakpoint
CREATE INDEX "deployments_by_organization" ON "deployments" USING btree ("organization_id","id");--> statement-breakpoint
CREATE INDEX "deployments_by_application" ON "deployments" USING btree ("application_id","id");--> statement-breakpoint
CREATE INDEX "deployments_of_environment" ON "deployments" USING btree ("environment_id","status","id");--> statement-breakpoint
CREATE INDEX "deployments_under_way" ON "deployments" USING btree ("organization_id","status") WHERE "deployments"."status" not in ('ACTIVE', 'FAILED');--> statement-breakpoint
CREATE UNIQUE INDEX "hostnames_preview" ON "hostnames" USING btree ("application_id") WHERE "hostnames"."type" = 'BRANCH';--> statement-breakpoint
CREATE INDEX "hostnames_of_deployment" ON "hostnames" USING btree ("deployment_id");
--> statement-breakpoint
CREATE TRIGGER artifacts_unlinked AFTER DELETE ON "artifacts" REFERENCING OLD TABLE AS unlinked
  FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();
--> statement-breakpoint
CREATE FUNCTION note_encoding_candidates() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO blob_candidates (blob_id) SELECT DISTINCT blob_id FROM unlinked WHERE blob_id IS NOT NULL ORDER BY blob_id
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE TRIGGER artifact_encodings_unlinked AFTER DELETE ON "artifact_encodings" REFERENCING OLD TABLE AS unlinked
  FOR EACH STATEMENT EXECUTE FUNCTION note_encoding_candidates();
--> statement-breakpoint
-- One statement for both states of a move, in the order of their keys: two moves never wait for each other in a circle.
CREATE FUNCTION count_deployments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    UPDATE deployment_counts c SET deployments = c.deployments - n.less
    FROM (SELECT application_id, status, count(*) AS less FROM before GROUP BY 1, 2) n
    WHERE c.application_id = n.application_id AND c.status = n.status;
  ELSIF TG_OP = 'INSERT' THEN
    INSERT INTO deployment_counts AS c (application_id, status, deployments)
    SELECT application_id, status, count(*) FROM after GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (application_id, status) DO UPDATE SET deployments = c.deployments + excluded.deployments;
  ELSE
    INSERT INTO deployment_counts AS c (application_id, status, deployments)
    SELECT application_id, status, sum(n) FROM (
      SELECT application_id, status, 1 AS n FROM after UNION ALL SELECT application_id, status, -1 FROM before
    ) moves GROUP BY 1, 2 HAVING sum(n) <> 0 ORDER BY 1, 2
    ON CONFLICT (application_id, status) DO UPDATE SET deployments = c.deployments + excluded.deployments;
  END IF;
  RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE TRIGGER deployments_counted_in AFTER INSERT ON "deployments" REFERENCING NEW TABLE AS after
  FOR EACH STATEMENT EXECUTE FUNCTION count_deployments();
--> statement-breakpoint
CREATE TRIGGER deployments_recounted AFTER UPDATE ON "deployments" REFERENCING OLD TABLE AS before NEW TABLE AS after
  FOR EACH STATEMENT EXECUTE FUNCTION count_deployments();
--> statement-breakpoint
CREATE TRIGGER deployments_counted_out AFTER DELETE ON "deployments" REFERENCING OLD TABLE AS before
  FOR EACH STATEMENT EXECUTE FUNCTION count_deployments();
--> statement-breakpoint
-- What an edge keeps of an application's hostnames is out of date: channel edge_hostnames, payload its id. By triggers, so that
-- no way of changing it forgets to say so.
CREATE FUNCTION notify_edge_hostnames() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('edge_hostnames', coalesce(NEW.application_id, OLD.application_id)::text);
  RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE TRIGGER hostnames_notify AFTER INSERT OR UPDATE OR DELETE ON "hostnames"
  FOR EACH ROW EXECUTE FUNCTION notify_edge_hostnames();
--> statement-breakpoint
CREATE TRIGGER environments_notify AFTER UPDATE OF "current_deployment_id" ON "environments"
  FOR EACH ROW WHEN (OLD.current_deployment_id IS DISTINCT FROM NEW.current_deployment_id)
  EXECUTE FUNCTION notify_edge_hostnames();
--> statement-breakpoint
CREATE TRIGGER deployments_notify AFTER UPDATE ON "deployments"
  FOR EACH ROW WHEN (OLD.status <> NEW.status OR OLD.retired_at IS DISTINCT FROM NEW.retired_at)
  EXECUTE FUNCTION notify_edge_hostnames();
--> statement-breakpoint
-- Those who follow a build log have something to read: channel build_logs, payload the deployment's id.
CREATE FUNCTION notify_build_log() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'build_logs' THEN
    PERFORM pg_notify('build_logs', deployment_id::text) FROM (SELECT DISTINCT deployment_id FROM written) w;
  ELSE
    PERFORM pg_notify('build_logs', NEW.id::text);
  END IF;
  RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE TRIGGER build_logs_notify AFTER INSERT ON "build_logs" REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION notify_build_log();
--> statement-breakpoint
CREATE TRIGGER deployments_notify_followers AFTER UPDATE OF "status" ON "deployments"
  FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION notify_build_log();
--> statement-breakpoint
-- The hostname of the preview environment follows the production label.
INSERT INTO hostnames (id, application_id, type, label, source, created_at)
SELECT gen_random_uuid(), application_id, 'BRANCH', label || '--preview', source, created_at FROM hostnames WHERE type = 'APP';
