CREATE TABLE "activities" (
	"application_id" uuid NOT NULL,
	"number" bigint NOT NULL,
	"type" text NOT NULL,
	"actor" jsonb NOT NULL,
	"subject" jsonb NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "activities_application_id_number_pk" PRIMARY KEY("application_id","number")
);
--> statement-breakpoint
ALTER TABLE "applications" ADD COLUMN "activity_number" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "activities" ADD CONSTRAINT "activities_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "activities_by_age" ON "activities" USING btree ("created_at");