CREATE TABLE "membership_counts" (
	"user_id" text PRIMARY KEY NOT NULL,
	"organizations" integer NOT NULL
);
--> statement-breakpoint
ALTER TABLE "organizations" ADD COLUMN "application_count" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE FUNCTION count_applications() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		UPDATE organizations o SET application_count = o.application_count + n.more
		FROM (SELECT organization_id, count(*) AS more FROM changed GROUP BY organization_id) n
		WHERE o.id = n.organization_id;
	ELSE
		UPDATE organizations o SET application_count = o.application_count - n.less
		FROM (SELECT organization_id, count(*) AS less FROM changed GROUP BY organization_id) n
		WHERE o.id = n.organization_id;
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER applications_counted_in AFTER INSERT ON applications
	REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_applications();
--> statement-breakpoint
CREATE TRIGGER applications_counted_out AFTER DELETE ON applications
	REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_applications();
--> statement-breakpoint
UPDATE organizations o SET application_count = n.count
FROM (SELECT organization_id, count(*) AS count FROM applications GROUP BY organization_id) n
WHERE o.id = n.organization_id;
--> statement-breakpoint
CREATE FUNCTION count_memberships() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		INSERT INTO membership_counts AS m (user_id, organizations)
		SELECT user_id, count(*) FROM changed GROUP BY user_id ORDER BY user_id
		ON CONFLICT (user_id) DO UPDATE SET organizations = m.organizations + excluded.organizations;
	ELSE
		UPDATE membership_counts m SET organizations = m.organizations - n.less
		FROM (SELECT user_id, count(*) AS less FROM changed GROUP BY user_id) n
		WHERE m.user_id = n.user_id;
	END IF;
	RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER members_counted_in AFTER INSERT ON organization_members
	REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_memberships();
--> statement-breakpoint
CREATE TRIGGER members_counted_out AFTER DELETE ON organization_members
	REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_memberships();
--> statement-breakpoint
INSERT INTO membership_counts (user_id, organizations)
SELECT user_id, count(*) FROM organization_members GROUP BY user_id;
