-- Keeps writers out until this transaction has counted what there is.
CREATE INDEX "deployments_by_environment" ON "deployments" USING btree ("environment_id","id");
--> statement-breakpoint
-- Without a foreign key: its check would wait for a row of environments that a promotion holds.
CREATE TABLE "environment_deployment_counts" (
	"environment_id" uuid NOT NULL,
	"status" text NOT NULL,
	"deployments" bigint NOT NULL,
	CONSTRAINT "environment_deployment_counts_environment_id_status_pk" PRIMARY KEY("environment_id","status")
);
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
