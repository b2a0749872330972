CREATE TABLE "billing_caps" (
	"organization_id" uuid PRIMARY KEY NOT NULL,
	"cap_micros" bigint NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "billing_caps_cap" CHECK ("billing_caps"."cap_micros" >= 0)
);
--> statement-breakpoint
CREATE TABLE "quota_overrides" (
	"organization_id" uuid NOT NULL,
	"quota" text NOT NULL,
	"limit" bigint NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "quota_overrides_organization_id_quota_pk" PRIMARY KEY("organization_id","quota"),
	CONSTRAINT "quota_overrides_limit" CHECK ("quota_overrides"."limit" >= 0)
);
--> statement-breakpoint
ALTER TABLE "billing_caps" ADD CONSTRAINT "billing_caps_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "quota_overrides" ADD CONSTRAINT "quota_overrides_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;