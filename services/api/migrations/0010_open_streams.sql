CREATE TABLE "open_streams" (
	"id" uuid PRIMARY KEY NOT NULL,
	"resource" text NOT NULL,
	"process_id" uuid NOT NULL,
	"expires_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE INDEX "open_streams_by_resource" ON "open_streams" USING btree ("resource");