ALTER TABLE "authorization_codes" ADD COLUMN "user_agent" text;--> statement-breakpoint
ALTER TABLE "authorization_codes" ADD COLUMN "address" text;--> statement-breakpoint
ALTER TABLE "refresh_families" ADD COLUMN "user_agent" text;--> statement-breakpoint
ALTER TABLE "refresh_families" ADD COLUMN "address" text;