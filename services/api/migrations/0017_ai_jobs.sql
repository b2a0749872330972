CREATE TABLE "ai_response_items" (
	"id" text NOT NULL,
	"provider" text NOT NULL,
	"organization_id" uuid NOT NULL,
	"application_id" uuid,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "ai_response_items_id_provider_pk" PRIMARY KEY("id","provider")
);
--> statement-breakpoint
CREATE TABLE "ai_responses" (
	"provider" text NOT NULL,
	"id" text NOT NULL,
	"organization_id" uuid NOT NULL,
	"application_id" uuid,
	"upstream_model" text NOT NULL,
	"total_tokens" bigint,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "ai_responses_provider_id_pk" PRIMARY KEY("provider","id")
);
--> statement-breakpoint
CREATE TABLE "ai_video_jobs" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"application_id" uuid,
	"event_id" uuid NOT NULL,
	"model" text NOT NULL,
	"provider" text NOT NULL,
	"upstream_model" text NOT NULL,
	"key_owner" text NOT NULL,
	"upstream_id" text,
	"status" text NOT NULL,
	"duration" integer,
	"content_url" text,
	"error_code" text,
	"error_message" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"poll_at" timestamp (3) with time zone,
	"polls" integer DEFAULT 0 NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"completed_at" timestamp (3) with time zone,
	CONSTRAINT "ai_video_jobs_status" CHECK ("ai_video_jobs"."status" in ('pending', 'in_progress', 'completed', 'failed', 'cancelled', 'expired')),
	CONSTRAINT "ai_video_jobs_key_owner" CHECK ("ai_video_jobs"."key_owner" in ('operator', 'organization', 'local'))
);
--> statement-breakpoint
ALTER TABLE "ai_response_items" ADD CONSTRAINT "ai_response_items_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ai_responses" ADD CONSTRAINT "ai_responses_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ai_video_jobs" ADD CONSTRAINT "ai_video_jobs_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "ai_response_items_by_time" ON "ai_response_items" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "ai_response_items_of_organization" ON "ai_response_items" USING btree ("organization_id");--> statement-breakpoint
CREATE INDEX "ai_responses_by_id" ON "ai_responses" USING btree ("id");--> statement-breakpoint
CREATE INDEX "ai_responses_by_time" ON "ai_responses" USING btree ("created_at");--> statement-breakpoint
CREATE INDEX "ai_responses_of_organization" ON "ai_responses" USING btree ("organization_id");--> statement-breakpoint
CREATE INDEX "ai_video_jobs_to_poll" ON "ai_video_jobs" USING btree ("poll_at") WHERE "ai_video_jobs"."poll_at" is not null;--> statement-breakpoint
CREATE INDEX "ai_video_jobs_of_organization" ON "ai_video_jobs" USING btree ("organization_id");--> statement-breakpoint
CREATE INDEX "ai_video_jobs_by_expiry" ON "ai_video_jobs" USING btree ("expires_at");