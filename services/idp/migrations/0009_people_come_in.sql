CREATE TABLE "sign_ups" (
	"browser_hash" "bytea" PRIMARY KEY NOT NULL,
	"email" text NOT NULL,
	"code_hash" "bytea" NOT NULL,
	"guesses" integer NOT NULL,
	"return_to" text NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"proven_at" timestamp (3) with time zone
);
--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "joined" jsonb;--> statement-breakpoint
CREATE INDEX "sign_ups_by_expiry" ON "sign_ups" USING btree ("expires_at");