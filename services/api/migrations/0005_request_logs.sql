CREATE TABLE "request_counts" (
	"application_id" uuid NOT NULL,
	"hour" timestamp (3) with time zone NOT NULL,
	"kind" "bytea" NOT NULL,
	"method" text NOT NULL,
	"hostname" text NOT NULL,
	"status" smallint NOT NULL,
	"country" text,
	"cache_status" text,
	"deployment_id" uuid,
	"requests" bigint NOT NULL
);
--> statement-breakpoint
CREATE TABLE "request_logs" (
	"id" uuid NOT NULL,
	"application_id" uuid NOT NULL,
	"deployment_id" uuid,
	"served_by" jsonb NOT NULL,
	"method" text NOT NULL,
	"hostname" text NOT NULL,
	"path" text NOT NULL,
	"query" text NOT NULL,
	"protocol" text NOT NULL,
	"country" text,
	"user_agent" text,
	"referer" text,
	"status" smallint NOT NULL,
	"cache_status" text,
	"region" text,
	"edge_location" text,
	"request_body_bytes" bigint NOT NULL,
	"response_body_bytes" bigint NOT NULL,
	"bytes_sent" bigint NOT NULL,
	"duration_ms" integer NOT NULL,
	"completed_at" timestamp (3) with time zone NOT NULL,
	"request_headers" jsonb NOT NULL,
	"response_headers" jsonb NOT NULL,
	CONSTRAINT "request_logs_application_id_id_pk" PRIMARY KEY("application_id","id")
) PARTITION BY RANGE ("id");
--> statement-breakpoint
CREATE UNIQUE INDEX "request_counts_kind" ON "request_counts" USING btree ("application_id","hour","kind");--> statement-breakpoint
CREATE INDEX "request_logs_failures" ON "request_logs" USING btree ("application_id",("status" / 100),"id") WHERE "request_logs"."status" >= 400;--> statement-breakpoint
CREATE INDEX "request_logs_paths" ON "request_logs" USING btree ("application_id","path" text_pattern_ops,"id");