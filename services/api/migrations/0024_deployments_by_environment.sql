-- The tables that the release before writes to, locked all or none: its transactions take them in more than one order, and one that
-- waits for this migration while this waits for it is ended as a deadlock after a second. Five waits of 150 ms are shorter.
DO $$
DECLARE
  timeout_before text := current_setting('lock_timeout');
  gives_up_at timestamptz := clock_timestamp() + interval '10 seconds';
BEGIN
  LOOP
    BEGIN
      SET LOCAL lock_timeout = '150ms';
      LOCK TABLE environments, deployments IN SHARE ROW EXCLUSIVE MODE;
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      IF clock_timestamp() > gives_up_at THEN RAISE; END IF;
    END;
    PERFORM pg_sleep(0.05);
  END LOOP;
  PERFORM set_config('lock_timeout', timeout_before, true);
END
$$;
--> statement-breakpoint
CREATE TABLE "environment_deployment_counts" (
	"environment_id" uuid NOT NULL,
	"status" text NOT NULL,
	"deployments" bigint NOT NULL,
	CONSTRAINT "environment_deployment_counts_environment_id_status_pk" PRIMARY KEY("environment_id","status")
);
--> statement-breakpoint
ALTER TABLE "environment_deployment_counts" ADD CONSTRAINT "environment_deployment_counts_environment_id_environments_id_fk" FOREIGN KEY ("environment_id") REFERENCES "public"."environments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "deployments_by_environment" ON "deployments" USING btree ("environment_id","id");
--> statement-breakpoint
-- Every transaction adds to the counts of applications before those of environments, each in the order of their keys: two never wait
-- for each other in a circle.
CREATE OR REPLACE FUNCTION count_deployments() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    UPDATE deployment_counts c SET deployments = c.deployments - n.less
    FROM (SELECT application_id, status, count(*) AS less FROM before GROUP BY 1, 2) n
    WHERE c.application_id = n.application_id AND c.status = n.status;
    UPDATE environment_deployment_counts c SET deployments = c.deployments - n.less
    FROM (SELECT environment_id, status, count(*) AS less FROM before GROUP BY 1, 2) n
    WHERE c.environment_id = n.environment_id AND c.status = n.status;
  ELSIF TG_OP = 'INSERT' THEN
    INSERT INTO deployment_counts AS c (application_id, status, deployments)
    SELECT application_id, status, count(*) FROM after GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (application_id, status) DO UPDATE SET deployments = c.deployments + excluded.deployments;
    INSERT INTO environment_deployment_counts AS c (environment_id, status, deployments)
    SELECT environment_id, status, count(*) FROM after GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (environment_id, status) DO UPDATE SET deployments = c.deployments + excluded.deployments;
  ELSE
    INSERT INTO deployment_counts AS c (application_id, status, deployments)
    SELECT application_id, status, sum(n) FROM (
      SELECT application_id, status, 1 AS n FROM after UNION ALL SELECT application_id, status, -1 FROM before
    ) moves GROUP BY 1, 2 HAVING sum(n) <> 0 ORDER BY 1, 2
    ON CONFLICT (application_id, status) DO UPDATE SET deployments = c.deployments + excluded.deployments;
    INSERT INTO environment_deployment_counts AS c (environment_id, status, deployments)
    SELECT environment_id, status, sum(n) FROM (
      SELECT environment_id, status, 1 AS n FROM after UNION ALL SELECT environment_id, status, -1 FROM before
    ) moves GROUP BY 1, 2 HAVING sum(n) <> 0 ORDER BY 1, 2
    ON CONFLICT (environment_id, status) DO UPDATE SET deployments = c.deployments + excluded.deployments;
  END IF;
  RETURN NULL;
END
$$;
--> statement-breakpoint
INSERT INTO environment_deployment_counts (environment_id, status, deployments)
SELECT environment_id, status, count(*) FROM deployments GROUP BY 1, 2;
