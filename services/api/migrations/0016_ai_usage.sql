CREATE TABLE "ai_provider_keys" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"provider" text NOT NULL,
	"ciphertext" "bytea" NOT NULL,
	"kek_id" text NOT NULL,
	"last4" text NOT NULL,
	"created_by_user_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "ai_usage_events" (
	"id" uuid PRIMARY KEY NOT NULL,
	"trace_id" text,
	"organization_id" uuid NOT NULL,
	"application_id" uuid,
	"actor_id" text NOT NULL,
	"actor_type" text NOT NULL,
	"api_key_id" uuid,
	"authenticated_user_id" text,
	"caller_end_user_id" varchar(255),
	"model_requested" varchar(255),
	"model_served" varchar(255),
	"provider" text,
	"provider_attempts" jsonb NOT NULL,
	"operation" text NOT NULL,
	"status" text NOT NULL,
	"status_code" smallint NOT NULL,
	"error_code" varchar(255),
	"error_type" varchar(255),
	"input_tokens" bigint NOT NULL,
	"cache_read_tokens" bigint NOT NULL,
	"cache_write_tokens" bigint NOT NULL,
	"input_audio_tokens" bigint NOT NULL,
	"output_tokens" bigint NOT NULL,
	"reasoning_tokens" bigint NOT NULL,
	"output_audio_tokens" bigint NOT NULL,
	"audio_seconds" numeric(12, 3),
	"characters" bigint,
	"usage_source" text NOT NULL,
	"provider_cost_nanos" bigint NOT NULL,
	"billable_cost_nanos" bigint NOT NULL,
	"price_version" text,
	"streaming" boolean NOT NULL,
	"latency_ms" integer NOT NULL,
	"metadata" jsonb,
	"started_at" timestamp (3) with time zone NOT NULL,
	"completed_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "ai_usage_events_operation" CHECK ("ai_usage_events"."operation" in ('chat.completions', 'responses', 'audio.speech', 'audio.transcriptions', 'videos')),
	CONSTRAINT "ai_usage_events_status" CHECK ("ai_usage_events"."status" in ('pending', 'success', 'error', 'cancelled')),
	CONSTRAINT "ai_usage_events_actor_type" CHECK ("ai_usage_events"."actor_type" in ('user', 'key', 'function')),
	CONSTRAINT "ai_usage_events_usage_source" CHECK ("ai_usage_events"."usage_source" in ('provider', 'estimated', 'none')),
	CONSTRAINT "ai_usage_events_usage" CHECK (least("ai_usage_events"."input_tokens", "ai_usage_events"."cache_read_tokens", "ai_usage_events"."cache_write_tokens", "ai_usage_events"."input_audio_tokens", "ai_usage_events"."output_tokens",
"ai_usage_events"."reasoning_tokens", "ai_usage_events"."output_audio_tokens", "ai_usage_events"."audio_seconds", "ai_usage_events"."characters", "ai_usage_events"."latency_ms") >= 0),
	CONSTRAINT "ai_usage_events_cost" CHECK (least("ai_usage_events"."provider_cost_nanos", "ai_usage_events"."billable_cost_nanos") >= 0)
) PARTITION BY RANGE ("id");
--> statement-breakpoint
ALTER TABLE "ai_provider_keys" ADD CONSTRAINT "ai_provider_keys_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "ai_provider_keys_provider" ON "ai_provider_keys" USING btree ("organization_id","provider");--> statement-breakpoint
CREATE INDEX "ai_usage_events_of_organization" ON "ai_usage_events" USING btree ("organization_id","id");--> statement-breakpoint
CREATE INDEX "ai_usage_events_of_application" ON "ai_usage_events" USING btree ("application_id","id") WHERE "ai_usage_events"."application_id" is not null;