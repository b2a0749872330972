CREATE TABLE "api_keys" (
	"id" uuid PRIMARY KEY NOT NULL,
	"application_id" uuid,
	"name" varchar(255) NOT NULL,
	"scopes" text[] NOT NULL,
	"secret_hash" "bytea" NOT NULL,
	"signing_state" "bytea",
	"signing_kek_id" text,
	"expires_at" timestamp (3) with time zone,
	"created_by_user_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	"deleted_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "applications" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"name" varchar(255) NOT NULL,
	"slug" varchar(50) NOT NULL,
	"image_url" text,
	"root_directory" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "applications_name" UNIQUE("organization_id","name"),
	CONSTRAINT "applications_slug" UNIQUE("organization_id","slug")
);
--> statement-breakpoint
CREATE TABLE "product_entitlements" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"product" text NOT NULL,
	"status" text NOT NULL,
	"granted_by_user_id" text,
	"revoked_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "product_entitlements_product" UNIQUE("organization_id","product"),
	CONSTRAINT "product_entitlements_status" CHECK ("product_entitlements"."status" in ('ACTIVE', 'SUSPENDED', 'REVOKED'))
);
--> statement-breakpoint
CREATE TABLE "env_vars" (
	"id" uuid PRIMARY KEY NOT NULL,
	"layer" text NOT NULL,
	"organization_id" uuid,
	"application_id" uuid,
	"environment_id" uuid,
	"key" varchar(255) NOT NULL,
	"sensitive" boolean NOT NULL,
	"ciphertext" "bytea" NOT NULL,
	"kek_id" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "env_vars_layer" CHECK (case "env_vars"."layer"
        when 'organization' then "env_vars"."organization_id" is not null and "env_vars"."application_id" is null and "env_vars"."environment_id" is null
        when 'application' then "env_vars"."organization_id" is null and "env_vars"."application_id" is not null and "env_vars"."environment_id" is null
        when 'environment' then "env_vars"."organization_id" is null and "env_vars"."application_id" is not null and "env_vars"."environment_id" is not null
        else false end)
);
--> statement-breakpoint
CREATE TABLE "environments" (
	"id" uuid PRIMARY KEY NOT NULL,
	"application_id" uuid NOT NULL,
	"slug" text NOT NULL,
	"name" text NOT NULL,
	CONSTRAINT "environments_slug" UNIQUE("application_id","slug"),
	CONSTRAINT "environments_known" CHECK ("environments"."slug" in ('production', 'preview'))
);
--> statement-breakpoint
CREATE TABLE "organization_members" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"user_id" text NOT NULL,
	"role" text NOT NULL,
	"joined_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "organization_members_user" UNIQUE("organization_id","user_id"),
	CONSTRAINT "organization_members_role" CHECK ("organization_members"."role" in ('OWNER', 'ADMIN', 'MEMBER'))
);
--> statement-breakpoint
CREATE TABLE "organizations" (
	"id" uuid PRIMARY KEY NOT NULL,
	"name" varchar(255) NOT NULL,
	"slug" varchar(50) NOT NULL,
	"image_url" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "organizations_slug" UNIQUE("slug")
);
--> statement-breakpoint
CREATE TABLE "profiles" (
	"user_id" text PRIMARY KEY NOT NULL,
	"email" text,
	"given_name" text,
	"family_name" text,
	"image_url" text,
	"learned_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "signing_keys" (
	"kid" text PRIMARY KEY NOT NULL,
	"alg" text NOT NULL,
	"public_jwk" text NOT NULL,
	"ciphertext" "bytea" NOT NULL,
	"kek_id" text NOT NULL,
	"publish_at" timestamp (3) with time zone NOT NULL,
	"activates_at" timestamp (3) with time zone NOT NULL,
	"retires_at" timestamp (3) with time zone,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "product_subscriptions" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"product" text NOT NULL,
	"plan" text NOT NULL,
	"status" text NOT NULL,
	"activated_by_user_id" text,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "product_subscriptions_product" UNIQUE("organization_id","product"),
	CONSTRAINT "product_subscriptions_plan" CHECK ("product_subscriptions"."plan" in ('free', 'pro')),
	CONSTRAINT "product_subscriptions_status" CHECK ("product_subscriptions"."status" in ('ACTIVE', 'CANCELED'))
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "applications" ADD CONSTRAINT "applications_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "product_entitlements" ADD CONSTRAINT "product_entitlements_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "env_vars" ADD CONSTRAINT "env_vars_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "env_vars" ADD CONSTRAINT "env_vars_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "env_vars" ADD CONSTRAINT "env_vars_environment_id_environments_id_fk" FOREIGN KEY ("environment_id") REFERENCES "public"."environments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "environments" ADD CONSTRAINT "environments_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "organization_members" ADD CONSTRAINT "organization_members_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "product_subscriptions" ADD CONSTRAINT "product_subscriptions_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "api_keys_by_application" ON "api_keys" USING btree ("application_id","id");--> statement-breakpoint
CREATE INDEX "applications_by_organization" ON "applications" USING btree ("organization_id","id");--> statement-breakpoint
CREATE UNIQUE INDEX "env_vars_organization_key" ON "env_vars" USING btree ("organization_id","key") WHERE "env_vars"."layer" = 'organization';--> statement-breakpoint
CREATE UNIQUE INDEX "env_vars_application_key" ON "env_vars" USING btree ("application_id","key") WHERE "env_vars"."layer" = 'application';--> statement-breakpoint
CREATE UNIQUE INDEX "env_vars_environment_key" ON "env_vars" USING btree ("environment_id","key") WHERE "env_vars"."layer" = 'environment';--> statement-breakpoint
CREATE INDEX "env_vars_by_application" ON "env_vars" USING btree ("application_id","id");--> statement-breakpoint
CREATE INDEX "organization_members_by_user" ON "organization_members" USING btree ("user_id","organization_id");--> statement-breakpoint
CREATE UNIQUE INDEX "signing_keys_activates_at" ON "signing_keys" USING btree ("activates_at");--> statement-breakpoint
CREATE INDEX "signing_keys_retires_at" ON "signing_keys" USING btree ("retires_at");