CREATE TABLE "cron_runs" (
	"id" uuid PRIMARY KEY NOT NULL,
	"cron_id" uuid NOT NULL,
	"slot" uuid,
	"trigger" text NOT NULL,
	"due_at" timestamp (3) with time zone NOT NULL,
	"started_at" timestamp (3) with time zone,
	"completed_at" timestamp (3) with time zone,
	"edge_id" uuid,
	"lease_until" timestamp (3) with time zone NOT NULL,
	"status" integer,
	"outcome" text,
	"error" text,
	CONSTRAINT "cron_runs_once" UNIQUE("slot","due_at"),
	CONSTRAINT "cron_runs_trigger" CHECK ("cron_runs"."trigger" in ('schedule', 'manual')),
	CONSTRAINT "cron_runs_slot" CHECK (("cron_runs"."trigger" = 'schedule') = ("cron_runs"."slot" is not null)),
	CONSTRAINT "cron_runs_outcome" CHECK ("cron_runs"."outcome" in ('succeeded', 'failed')),
	CONSTRAINT "cron_runs_end" CHECK (("cron_runs"."completed_at" is null) = ("cron_runs"."outcome" is null))
);
--> statement-breakpoint
CREATE TABLE "deployment_crons" (
	"id" uuid PRIMARY KEY NOT NULL,
	"deployment_id" uuid NOT NULL,
	"n" integer NOT NULL,
	"path" text collate "C" NOT NULL,
	"schedule" text NOT NULL,
	CONSTRAINT "deployment_crons_order" UNIQUE("deployment_id","n")
);
--> statement-breakpoint
ALTER TABLE "cron_runs" ADD CONSTRAINT "cron_runs_cron_id_deployment_crons_id_fk" FOREIGN KEY ("cron_id") REFERENCES "public"."deployment_crons"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deployment_crons" ADD CONSTRAINT "deployment_crons_deployment_id_deployments_id_fk" FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "cron_runs_by_cron" ON "cron_runs" USING btree ("cron_id","id");--> statement-breakpoint
CREATE INDEX "cron_runs_by_age" ON "cron_runs" USING btree ("due_at");--> statement-breakpoint
CREATE INDEX "cron_runs_under_way" ON "cron_runs" USING btree ("lease_until") WHERE "cron_runs"."completed_at" is null;--> statement-breakpoint
SELECT pgboss.create_queue('crons', '{"policy": "short", "retryLimit": 0, "expireInSeconds": 60, "retentionSeconds": 3600, "deleteAfterSeconds": 3600}'::jsonb);
