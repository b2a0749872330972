CREATE TABLE "blob_candidates" (
	"blob_id" uuid PRIMARY KEY NOT NULL
);
--> statement-breakpoint
CREATE TABLE "blobs" (
	"id" uuid PRIMARY KEY NOT NULL,
	"state" text NOT NULL,
	"length" bigint NOT NULL,
	"crc32" bigint,
	"content" "bytea",
	"created_at" timestamp (3) with time zone NOT NULL,
	"died_at" timestamp (3) with time zone,
	CONSTRAINT "blobs_state" CHECK ("blobs"."state" in ('pending', 'live', 'dead'))
);
--> statement-breakpoint
CREATE TABLE "bucket_counts" (
	"bucket_id" uuid NOT NULL,
	"shard" smallint NOT NULL,
	"objects" bigint NOT NULL,
	"bytes" bigint NOT NULL,
	"trashed" bigint NOT NULL,
	"trashed_bytes" bigint NOT NULL,
	CONSTRAINT "bucket_counts_bucket_id_shard_pk" PRIMARY KEY("bucket_id","shard")
);
--> statement-breakpoint
CREATE TABLE "buckets" (
	"id" uuid PRIMARY KEY NOT NULL,
	"application_id" uuid NOT NULL,
	"environment_id" uuid NOT NULL,
	"name" varchar(63) NOT NULL,
	"slug" varchar(63) NOT NULL,
	"visibility" text NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	"deleted_at" timestamp (3) with time zone,
	CONSTRAINT "buckets_name" UNIQUE("environment_id","name"),
	CONSTRAINT "buckets_slug" UNIQUE("slug"),
	CONSTRAINT "buckets_visibility" CHECK ("buckets"."visibility" in ('public', 'private'))
);
--> statement-breakpoint
CREATE TABLE "object_blobs" (
	"object_id" uuid NOT NULL,
	"n" integer NOT NULL,
	"blob_id" uuid NOT NULL,
	"length" bigint NOT NULL,
	"part" integer,
	"part_checksum" text,
	CONSTRAINT "object_blobs_object_id_n_pk" PRIMARY KEY("object_id","n")
);
--> statement-breakpoint
CREATE TABLE "objects" (
	"id" uuid PRIMARY KEY NOT NULL,
	"bucket_id" uuid NOT NULL,
	"key" text collate "C" NOT NULL,
	"content_type" text NOT NULL,
	"content_length" bigint NOT NULL,
	"etag" text NOT NULL,
	"checksum_md5" "bytea",
	"checksum_sha1" "bytea",
	"checksum_sha256" "bytea",
	"checksum" jsonb,
	"headers" jsonb NOT NULL,
	"metadata" jsonb NOT NULL,
	"tags" jsonb NOT NULL,
	"blob_count" integer NOT NULL,
	"upload_session_id" uuid,
	"uploaded_at" timestamp (3) with time zone NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	"deleted_at" timestamp (3) with time zone
);
--> statement-breakpoint
CREATE TABLE "upload_blobs" (
	"upload_id" uuid NOT NULL,
	"part" integer NOT NULL,
	"n" integer NOT NULL,
	"blob_id" uuid NOT NULL,
	"length" bigint NOT NULL,
	"etag" text,
	"checksum" text,
	"uploaded_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "upload_blobs_upload_id_part_n_pk" PRIMARY KEY("upload_id","part","n")
);
--> statement-breakpoint
CREATE TABLE "uploads" (
	"id" uuid PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"bucket_id" uuid,
	"key" text collate "C" NOT NULL,
	"content_type" text NOT NULL,
	"headers" jsonb NOT NULL,
	"metadata" jsonb NOT NULL,
	"tags" jsonb NOT NULL,
	"content_length" bigint,
	"checksum_md5" "bytea",
	"checksum_sha1" "bytea",
	"checksum_sha256" "bytea",
	"checksum_algorithm" text,
	"checksum_type" text,
	"offset" bigint DEFAULT 0 NOT NULL,
	"hash_state" "bytea",
	"token_hash" "bytea",
	"is_partial" boolean DEFAULT false NOT NULL,
	"concatenates" text,
	"upload_metadata" text,
	"is_new_only" boolean DEFAULT false NOT NULL,
	"created_by" text,
	"lease_holder" uuid,
	"state" text NOT NULL,
	"failure_reason" text,
	"object_id" uuid,
	"uploaded_at" timestamp (3) with time zone,
	"expires_at" timestamp (3) with time zone NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	"updated_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "uploads_state" CHECK ("uploads"."state" in ('pending', 'ready', 'completed', 'failed', 'expired'))
);
--> statement-breakpoint
ALTER TABLE "bucket_counts" ADD CONSTRAINT "bucket_counts_bucket_id_buckets_id_fk" FOREIGN KEY ("bucket_id") REFERENCES "public"."buckets"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "buckets" ADD CONSTRAINT "buckets_application_id_applications_id_fk" FOREIGN KEY ("application_id") REFERENCES "public"."applications"("id") ON DELETE restrict ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "buckets" ADD CONSTRAINT "buckets_environment_id_environments_id_fk" FOREIGN KEY ("environment_id") REFERENCES "public"."environments"("id") ON DELETE restrict ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "object_blobs" ADD CONSTRAINT "object_blobs_blob_id_blobs_id_fk" FOREIGN KEY ("blob_id") REFERENCES "public"."blobs"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "object_blobs" ADD CONSTRAINT "object_blobs_object_id_objects_id_fk" FOREIGN KEY ("object_id") REFERENCES "public"."objects"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "objects" ADD CONSTRAINT "objects_bucket_id_buckets_id_fk" FOREIGN KEY ("bucket_id") REFERENCES "public"."buckets"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "upload_blobs" ADD CONSTRAINT "upload_blobs_upload_id_uploads_id_fk" FOREIGN KEY ("upload_id") REFERENCES "public"."uploads"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "upload_blobs" ADD CONSTRAINT "upload_blobs_blob_id_blobs_id_fk" FOREIGN KEY ("blob_id") REFERENCES "public"."blobs"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "uploads" ADD CONSTRAINT "uploads_bucket_id_buckets_id_fk" FOREIGN KEY ("bucket_id") REFERENCES "public"."buckets"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "blobs_not_live" ON "blobs" USING btree ("created_at") WHERE "blobs"."state" <> 'live';--> statement-breakpoint
CREATE INDEX "buckets_deleted" ON "buckets" USING btree ("deleted_at") WHERE "buckets"."deleted_at" is not null;--> statement-breakpoint
CREATE INDEX "object_blobs_by_blob" ON "object_blobs" USING btree ("blob_id");--> statement-breakpoint
CREATE UNIQUE INDEX "objects_live" ON "objects" USING btree ("bucket_id","key") WHERE "objects"."deleted_at" is null;--> statement-breakpoint
CREATE INDEX "objects_trash" ON "objects" USING btree ("bucket_id","deleted_at" DESC NULLS FIRST,"id" DESC NULLS FIRST) WHERE "objects"."deleted_at" is not null;--> statement-breakpoint
CREATE INDEX "upload_blobs_by_blob" ON "upload_blobs" USING btree ("blob_id");--> statement-breakpoint
CREATE INDEX "uploads_by_bucket" ON "uploads" USING btree ("bucket_id","kind","key","id");--> statement-breakpoint
CREATE INDEX "uploads_by_expiry" ON "uploads" USING btree ("expires_at");
--> statement-breakpoint
-- Bytes of clients hardly ever compress, and trying costs more than it saves.
ALTER TABLE "blobs" ALTER COLUMN "content" SET STORAGE EXTERNAL;
--> statement-breakpoint
CREATE FUNCTION note_blob_candidates() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO blob_candidates (blob_id) SELECT DISTINCT blob_id FROM unlinked ORDER BY blob_id ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
--> statement-breakpoint
CREATE TRIGGER object_blobs_unlinked AFTER DELETE ON "object_blobs" REFERENCING OLD TABLE AS unlinked
  FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();
--> statement-breakpoint
CREATE TRIGGER upload_blobs_unlinked AFTER DELETE ON "upload_blobs" REFERENCING OLD TABLE AS unlinked
  FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();
