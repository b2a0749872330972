CREATE TABLE "pattern_verdicts" (
	"key" "bytea" PRIMARY KEY NOT NULL,
	"verdict" jsonb NOT NULL,
	"steps" integer NOT NULL,
	"used_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE INDEX "pattern_verdicts_by_use" ON "pattern_verdicts" USING btree ("used_at");