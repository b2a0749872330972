CREATE TABLE "ai_budget_windows" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "ai_budget_windows_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"organization_id" uuid NOT NULL,
	"is_allowance" boolean NOT NULL,
	"application_id" uuid,
	"user_id" text,
	"period" text NOT NULL,
	"starts_at" timestamp (3) with time zone NOT NULL,
	"spent_cost_nanos" numeric(38, 0) NOT NULL,
	"spent_requests" bigint NOT NULL,
	"spent_tokens" bigint NOT NULL,
	"held_cost_nanos" numeric(38, 0) NOT NULL,
	"held_requests" bigint NOT NULL,
	"held_tokens" bigint NOT NULL,
	CONSTRAINT "ai_budget_windows_key" UNIQUE NULLS NOT DISTINCT("organization_id","starts_at","period","is_allowance","application_id","user_id"),
	CONSTRAINT "ai_budget_windows_period" CHECK ("ai_budget_windows"."period" in ('day', 'month'))
);
--> statement-breakpoint
CREATE TABLE "ai_budgets" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"application_id" uuid,
	"user_id" text,
	"period" text NOT NULL,
	"max_cost_micros" bigint,
	"max_requests" bigint,
	"max_tokens" bigint,
	"max_request_cost_micros" bigint,
	"enabled" boolean NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "ai_budgets_target" UNIQUE NULLS NOT DISTINCT("organization_id","application_id","user_id","period"),
	CONSTRAINT "ai_budgets_period" CHECK ("ai_budgets"."period" in ('day', 'month')),
	CONSTRAINT "ai_budgets_maximum" CHECK (least("ai_budgets"."max_cost_micros", "ai_budgets"."max_requests", "ai_budgets"."max_tokens", "ai_budgets"."max_request_cost_micros") >= 0)
);
--> statement-breakpoint
CREATE TABLE "ai_holds" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"application_id" uuid,
	"user_id" text,
	"is_by_operator" boolean NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"cost_nanos" bigint NOT NULL,
	"tokens" bigint NOT NULL,
	"event" jsonb NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "ai_holds_amounts" CHECK (least("ai_holds"."cost_nanos", "ai_holds"."tokens") >= 0)
);
--> statement-breakpoint
CREATE TABLE "ai_policies" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"application_id" uuid,
	"allowed_models" text[],
	"allowed_providers" text[],
	"require_zdr" boolean NOT NULL,
	"allow_fallbacks" boolean NOT NULL,
	"max_output_tokens" integer,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "ai_policies_target" UNIQUE NULLS NOT DISTINCT("organization_id","application_id"),
	CONSTRAINT "ai_policies_output" CHECK ("ai_policies"."max_output_tokens" >= 1)
);
--> statement-breakpoint
CREATE TABLE "ai_usage_sums" (
	"organization_id" uuid NOT NULL,
	"span" text NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"application_id" uuid,
	"user_id" text,
	"model" text NOT NULL,
	"provider" text NOT NULL,
	"is_by_operator" boolean NOT NULL,
	"requests" bigint NOT NULL,
	"successes" bigint NOT NULL,
	"errors" bigint NOT NULL,
	"cancelled" bigint NOT NULL,
	"input_tokens" bigint NOT NULL,
	"output_tokens" bigint NOT NULL,
	"latency_ms" bigint NOT NULL,
	"provider_cost_nanos" numeric(38, 0) NOT NULL,
	"billable_cost_nanos" numeric(38, 0) NOT NULL,
	"counted_requests" bigint NOT NULL,
	"counted_tokens" bigint NOT NULL,
	"counted_cost_nanos" numeric(38, 0) NOT NULL,
	CONSTRAINT "ai_usage_sums_key" UNIQUE NULLS NOT DISTINCT("organization_id","span","at","application_id","user_id","model","provider","is_by_operator"),
	CONSTRAINT "ai_usage_sums_span" CHECK ("ai_usage_sums"."span" in ('hour', 'day'))
);
--> statement-breakpoint
ALTER TABLE "ai_budget_windows" ADD CONSTRAINT "ai_budget_windows_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ai_budgets" ADD CONSTRAINT "ai_budgets_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "ai_policies" ADD CONSTRAINT "ai_policies_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "ai_budget_windows_by_age" ON "ai_budget_windows" USING btree ("starts_at");--> statement-breakpoint
CREATE INDEX "ai_holds_of_organization" ON "ai_holds" USING btree ("organization_id");--> statement-breakpoint
CREATE INDEX "ai_holds_by_expiry" ON "ai_holds" USING btree ("expires_at");