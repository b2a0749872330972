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
      LOCK TABLE organizations, artifacts, deployments IN SHARE ROW EXCLUSIVE MODE;
      LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE;
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
CREATE TABLE "deployment_functions" (
	"id" uuid PRIMARY KEY NOT NULL,
	"deployment_id" uuid NOT NULL,
	"path" text collate "C" NOT NULL,
	"kind" text NOT NULL,
	"handler" text,
	"command" text,
	"is_web" boolean NOT NULL,
	"has_helpers" boolean NOT NULL,
	"memory_mb" integer,
	"environment" jsonb NOT NULL,
	"cold_starts" bigint DEFAULT 0 NOT NULL,
	"requests" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "deployment_functions_path" UNIQUE("deployment_id","path"),
	CONSTRAINT "deployment_functions_kind" CHECK ("deployment_functions"."kind" in ('handler', 'edge', 'worker', 'server')),
	CONSTRAINT "deployment_functions_entry" CHECK ("deployment_functions"."handler" is not null or "deployment_functions"."command" is not null)
);
--> statement-breakpoint
CREATE TABLE "function_files" (
	"function_id" uuid NOT NULL,
	"path" text collate "C" NOT NULL,
	"sha256" "bytea" NOT NULL,
	"bytes" bigint NOT NULL,
	"is_executable" boolean NOT NULL,
	CONSTRAINT "function_files_function_id_path_pk" PRIMARY KEY("function_id","path")
);
--> statement-breakpoint
CREATE TABLE "function_slots" (
	"function_id" uuid NOT NULL,
	"process_id" uuid NOT NULL,
	"slots" integer NOT NULL,
	"memory_bytes" bigint NOT NULL,
	"seen_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "function_slots_function_id_process_id_pk" PRIMARY KEY("function_id","process_id")
);
--> statement-breakpoint
CREATE TABLE "function_time" (
	"organization_id" uuid NOT NULL,
	"month" timestamp (3) with time zone NOT NULL,
	"busy_ms" bigint NOT NULL,
	CONSTRAINT "function_time_organization_id_month_pk" PRIMARY KEY("organization_id","month")
);
--> statement-breakpoint
CREATE TABLE "runtime_logs" (
	"id" uuid NOT NULL,
	"application_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"function_id" uuid NOT NULL,
	"function_name" text NOT NULL,
	"slot" integer NOT NULL,
	"request_id" text,
	"level" text NOT NULL,
	"message" text NOT NULL,
	"number" bigserial NOT NULL,
	CONSTRAINT "runtime_logs_application_id_id_pk" PRIMARY KEY("application_id","id")
) PARTITION BY RANGE ("id");
--> statement-breakpoint
ALTER TABLE "api_keys" ALTER COLUMN "created_by_user_id" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "deployment_id" uuid;--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "environment_id" uuid;--> statement-breakpoint
ALTER TABLE "deployment_functions" ADD CONSTRAINT "deployment_functions_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "function_files" ADD CONSTRAINT "function_files_function_id_deployment_functions_id_fk" FOREIGN KEY ("function_id") REFERENCES "public"."deployment_functions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "function_files" ADD CONSTRAINT "function_files_sha256_artifacts_sha256_fk" FOREIGN KEY ("sha256") REFERENCES "public"."artifacts"("sha256") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "function_slots" ADD CONSTRAINT "function_slots_function_id_deployment_functions_id_fk" FOREIGN KEY ("function_id") REFERENCES "public"."deployment_functions"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "function_time" ADD CONSTRAINT "function_time_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "function_files_by_sha256" ON "function_files" USING btree ("sha256");--> statement-breakpoint
CREATE INDEX "runtime_logs_of_deployment" ON "runtime_logs" USING btree ("deployment_id","id");--> statement-breakpoint
CREATE INDEX "runtime_logs_in_order" ON "runtime_logs" USING btree ("application_id","number");--> statement-breakpoint
CREATE INDEX "runtime_logs_of_request" ON "runtime_logs" USING btree ("application_id","request_id","id");--> statement-breakpoint
CREATE INDEX "api_keys_of_deployment" ON "api_keys" USING btree ("deployment_id") WHERE "api_keys"."deployment_id" is not null;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_owner" CHECK (("api_keys"."deployment_id" is null) = ("api_keys"."created_by_user_id" is not null));--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_environment" CHECK (("api_keys"."deployment_id" is null) = ("api_keys"."environment_id" is null));