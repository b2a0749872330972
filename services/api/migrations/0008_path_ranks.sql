CREATE TABLE "request_path_ranks" (
	"hour" timestamp (3) with time zone NOT NULL,
	"application_id" uuid NOT NULL,
	"kind" "bytea" NOT NULL,
	"first_path" "bytea" NOT NULL,
	"paths" "bytea"[] NOT NULL,
	"running" integer[] NOT NULL,
	CONSTRAINT "request_path_ranks_hour_application_id_kind_first_path_pk" PRIMARY KEY("hour","application_id","kind","first_path")
);
