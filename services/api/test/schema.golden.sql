create table activities (
  actor jsonb not null,
  application_id uuid not null,
  created_at timestamp(3) with time zone not null,
  number bigint not null,
  subject jsonb not null,
  type text not null,
  constraint activities_application_id_applications_id_fk FOREIGN KEY (application_id) REFERENCES applications(id) ON DELETE CASCADE,
  constraint activities_application_id_number_pk PRIMARY KEY (application_id, number)
);

create table ai_budget_windows (
  application_id uuid,
  held_cost_nanos numeric(38,0) not null,
  held_requests bigint not null,
  held_tokens bigint not null,
  id bigint not null identity,
  is_allowance boolean not null,
  organization_id uuid not null,
  period text not null,
  spent_cost_nanos numeric(38,0) not null,
  spent_requests bigint not null,
  spent_tokens bigint not null,
  starts_at timestamp(3) with time zone not null,
  user_id text,
  constraint ai_budget_windows_key UNIQUE NULLS NOT DISTINCT (organization_id, starts_at, period, is_allowance, application_id, user_id),
  constraint ai_budget_windows_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint ai_budget_windows_period CHECK ((period = ANY (ARRAY['day'::text, 'month'::text]))),
  constraint ai_budget_windows_pkey PRIMARY KEY (id)
);

create table ai_budgets (
  application_id uuid,
  created_at timestamp(3) with time zone not null,
  enabled boolean not null,
  id uuid not null,
  max_cost_micros bigint,
  max_request_cost_micros bigint,
  max_requests bigint,
  max_tokens bigint,
  organization_id uuid not null,
  period text not null,
  updated_at timestamp(3) with time zone not null,
  user_id text,
  constraint ai_budgets_maximum CHECK ((LEAST(max_cost_micros, max_requests, max_tokens, max_request_cost_micros) >= 0)),
  constraint ai_budgets_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint ai_budgets_period CHECK ((period = ANY (ARRAY['day'::text, 'month'::text]))),
  constraint ai_budgets_pkey PRIMARY KEY (id),
  constraint ai_budgets_target UNIQUE NULLS NOT DISTINCT (organization_id, application_id, user_id, period)
);

create table ai_holds (
  application_id uuid,
  cost_nanos bigint not null,
  event jsonb not null,
  expires_at timestamp(3) with time zone not null,
  id uuid not null,
  is_by_operator boolean not null,
  organization_id uuid not null,
  started_at timestamp(3) with time zone not null,
  tokens bigint not null,
  user_id text,
  constraint ai_holds_amounts CHECK ((LEAST(cost_nanos, tokens) >= 0)),
  constraint ai_holds_pkey PRIMARY KEY (id)
);

create table ai_policies (
  allow_fallbacks boolean not null,
  allowed_models text[],
  allowed_providers text[],
  application_id uuid,
  created_at timestamp(3) with time zone not null,
  id uuid not null,
  max_output_tokens integer,
  organization_id uuid not null,
  require_zdr boolean not null,
  updated_at timestamp(3) with time zone not null,
  constraint ai_policies_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint ai_policies_output CHECK ((max_output_tokens >= 1)),
  constraint ai_policies_pkey PRIMARY KEY (id),
  constraint ai_policies_target UNIQUE NULLS NOT DISTINCT (organization_id, application_id)
);

create table ai_provider_keys (
  ciphertext bytea not null,
  created_at timestamp(3) with time zone not null,
  created_by_user_id text not null,
  id uuid not null,
  kek_id text not null,
  last4 text not null,
  organization_id uuid not null,
  provider text not null,
  updated_at timestamp(3) with time zone not null,
  constraint ai_provider_keys_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint ai_provider_keys_pkey PRIMARY KEY (id)
);

create table ai_response_items (
  application_id uuid,
  created_at timestamp(3) with time zone not null,
  id text not null,
  organization_id uuid not null,
  provider text not null,
  constraint ai_response_items_id_provider_pk PRIMARY KEY (id, provider),
  constraint ai_response_items_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);

create table ai_responses (
  application_id uuid,
  created_at timestamp(3) with time zone not null,
  id text not null,
  organization_id uuid not null,
  provider text not null,
  total_tokens bigint,
  upstream_model text not null,
  constraint ai_responses_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint ai_responses_provider_id_pk PRIMARY KEY (provider, id)
);

create table ai_usage_events (
  actor_id text not null,
  actor_type text not null,
  api_key_id uuid,
  application_id uuid,
  audio_seconds numeric(12,3),
  authenticated_user_id text,
  billable_cost_nanos bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  caller_end_user_id character varying(255),
  characters bigint,
  completed_at timestamp(3) with time zone,
  counted_cost_nanos bigint not null default 0,
  counted_requests smallint not null default 0,
  counted_tokens bigint not null default 0,
  created_at timestamp(3) with time zone not null,
  error_code character varying(255),
  error_type character varying(255),
  id uuid not null,
  input_audio_tokens bigint not null,
  input_tokens bigint not null,
  key_owner text,
  latency_ms integer not null,
  metadata jsonb,
  model_requested character varying(255),
  model_served character varying(255),
  operation text not null,
  organization_id uuid not null,
  output_audio_tokens bigint not null,
  output_tokens bigint not null,
  price_version text,
  provider text,
  provider_attempts jsonb not null,
  provider_cost_nanos bigint not null,
  reasoning_tokens bigint not null,
  started_at timestamp(3) with time zone not null,
  status text not null,
  status_code smallint not null,
  streaming boolean not null,
  trace_id text,
  updated_at timestamp(3) with time zone not null,
  usage_source text not null,
  constraint ai_usage_events_actor_type CHECK ((actor_type = ANY (ARRAY['user'::text, 'key'::text, 'function'::text]))),
  constraint ai_usage_events_cost CHECK ((LEAST(provider_cost_nanos, billable_cost_nanos) >= 0)),
  constraint ai_usage_events_counted CHECK ((LEAST((counted_requests)::bigint, counted_tokens, counted_cost_nanos) >= 0)),
  constraint ai_usage_events_key_owner CHECK ((key_owner = ANY (ARRAY['operator'::text, 'organization'::text, 'local'::text]))),
  constraint ai_usage_events_operation CHECK ((operation = ANY (ARRAY['chat.completions'::text, 'responses'::text, 'audio.speech'::text, 'audio.transcriptions'::text, 'videos'::text]))),
  constraint ai_usage_events_pkey PRIMARY KEY (id),
  constraint ai_usage_events_status CHECK ((status = ANY (ARRAY['pending'::text, 'success'::text, 'error'::text, 'cancelled'::text]))),
  constraint ai_usage_events_usage CHECK ((LEAST((input_tokens)::numeric, (cache_read_tokens)::numeric, (cache_write_tokens)::numeric, (input_audio_tokens)::numeric, (output_tokens)::numeric, (reasoning_tokens)::numeric, (output_audio_tokens)::numeric, audio_seconds, (characters)::numeric, (latency_ms)::numeric) >= (0)::numeric)),
  constraint ai_usage_events_usage_source CHECK ((usage_source = ANY (ARRAY['provider'::text, 'estimated'::text, 'none'::text])))
) partition by RANGE (id);

create table ai_usage_sums (
  application_id uuid,
  at timestamp(3) with time zone not null,
  billable_cost_nanos numeric(38,0) not null,
  cancelled bigint not null,
  counted_cost_nanos numeric(38,0) not null,
  counted_requests bigint not null,
  counted_tokens bigint not null,
  errors bigint not null,
  input_tokens bigint not null,
  is_by_operator boolean not null,
  latency_ms bigint not null,
  model text not null,
  organization_id uuid not null,
  output_tokens bigint not null,
  provider text not null,
  provider_cost_nanos numeric(38,0) not null,
  requests bigint not null,
  span text not null,
  successes bigint not null,
  user_id text,
  constraint ai_usage_sums_key UNIQUE NULLS NOT DISTINCT (organization_id, span, at, application_id, user_id, model, provider, is_by_operator),
  constraint ai_usage_sums_span CHECK ((span = ANY (ARRAY['hour'::text, 'day'::text])))
);

create table ai_video_jobs (
  application_id uuid,
  completed_at timestamp(3) with time zone,
  content_url text,
  created_at timestamp(3) with time zone not null,
  duration integer,
  error_code text,
  error_message text,
  event_id uuid not null,
  expires_at timestamp(3) with time zone not null,
  id uuid not null,
  key_owner text not null,
  model text not null,
  organization_id uuid not null,
  poll_at timestamp(3) with time zone,
  polls integer not null default 0,
  provider text not null,
  status text not null,
  upstream_id text,
  upstream_model text not null,
  constraint ai_video_jobs_key_owner CHECK ((key_owner = ANY (ARRAY['operator'::text, 'organization'::text, 'local'::text]))),
  constraint ai_video_jobs_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint ai_video_jobs_pkey PRIMARY KEY (id),
  constraint ai_video_jobs_status CHECK ((status = ANY (ARRAY['pending'::text, 'in_progress'::text, 'completed'::text, 'failed'::text, 'cancelled'::text, 'expired'::text])))
);

create table api_keys (
  application_id uuid,
  created_at timestamp(3) with time zone not null,
  created_by_user_id text,
  deleted_at timestamp(3) with time zone,
  deployment_id uuid,
  environment_id uuid,
  expires_at timestamp(3) with time zone,
  id uuid not null,
  last_used_at timestamp(3) with time zone,
  name character varying(255) not null,
  scopes text[] not null,
  secret_hash bytea not null,
  signing_kek_id text,
  signing_state bytea,
  updated_at timestamp(3) with time zone not null,
  constraint api_keys_application_id_applications_id_fk FOREIGN KEY (application_id) REFERENCES applications(id) ON DELETE SET NULL,
  constraint api_keys_environment CHECK (((deployment_id IS NULL) = (environment_id IS NULL))),
  constraint api_keys_owner CHECK (((deployment_id IS NULL) = (created_by_user_id IS NOT NULL))),
  constraint api_keys_pkey PRIMARY KEY (id)
);

create table applications (
  activity_number bigint not null default 0,
  created_at timestamp(3) with time zone not null,
  id uuid not null,
  image_url text,
  name character varying(255) not null,
  organization_id uuid not null,
  root_directory text,
  slug character varying(50) not null,
  updated_at timestamp(3) with time zone not null,
  constraint applications_name UNIQUE (organization_id, name),
  constraint applications_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint applications_pkey PRIMARY KEY (id),
  constraint applications_slug UNIQUE (organization_id, slug)
);

create table artifact_encodings (
  blob_id uuid,
  bytes bigint not null,
  encoding text not null,
  sha256 bytea not null,
  constraint artifact_encodings_blob_id_blobs_id_fk FOREIGN KEY (blob_id) REFERENCES blobs(id),
  constraint artifact_encodings_encoding CHECK ((encoding = ANY (ARRAY['br'::text, 'gzip'::text]))),
  constraint artifact_encodings_sha256_artifacts_sha256_fk FOREIGN KEY (sha256) REFERENCES artifacts(sha256) ON DELETE CASCADE,
  constraint artifact_encodings_sha256_encoding_pk PRIMARY KEY (sha256, encoding)
);

create table artifacts (
  blob_id uuid not null,
  bytes bigint not null,
  created_at timestamp(3) with time zone not null,
  sha256 bytea not null,
  constraint artifacts_blob_id_blobs_id_fk FOREIGN KEY (blob_id) REFERENCES blobs(id),
  constraint artifacts_pkey PRIMARY KEY (sha256)
);

create table audit_events (
  action text not null,
  actor text not null,
  at timestamp(3) with time zone not null,
  details jsonb not null,
  id uuid not null,
  subject text not null,
  constraint audit_events_pkey PRIMARY KEY (id)
);

create table billing_caps (
  cap_micros bigint not null,
  organization_id uuid not null,
  updated_at timestamp(3) with time zone not null,
  constraint billing_caps_cap CHECK ((cap_micros >= 0)),
  constraint billing_caps_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint billing_caps_pkey PRIMARY KEY (organization_id)
);

create table blob_candidates (
  blob_id uuid not null,
  constraint blob_candidates_pkey PRIMARY KEY (blob_id)
);

create table blobs (
  content bytea,
  crc32 bigint,
  created_at timestamp(3) with time zone not null,
  died_at timestamp(3) with time zone,
  id uuid not null,
  length bigint not null,
  state text not null,
  constraint blobs_pkey PRIMARY KEY (id),
  constraint blobs_state CHECK ((state = ANY (ARRAY['pending'::text, 'live'::text, 'dead'::text])))
);

create table bucket_configurations (
  bucket_id uuid not null,
  cors jsonb,
  tags jsonb,
  updated_at timestamp(3) with time zone not null,
  constraint bucket_configurations_bucket_id_buckets_id_fk FOREIGN KEY (bucket_id) REFERENCES buckets(id) ON DELETE CASCADE,
  constraint bucket_configurations_pkey PRIMARY KEY (bucket_id)
);

create table bucket_counts (
  bucket_id uuid not null,
  bytes bigint not null,
  objects bigint not null,
  shard smallint not null,
  trashed bigint not null,
  trashed_bytes bigint not null,
  constraint bucket_counts_bucket_id_buckets_id_fk FOREIGN KEY (bucket_id) REFERENCES buckets(id) ON DELETE CASCADE,
  constraint bucket_counts_bucket_id_shard_pk PRIMARY KEY (bucket_id, shard)
);

create table buckets (
  application_id uuid not null,
  created_at timestamp(3) with time zone not null,
  deleted_at timestamp(3) with time zone,
  environment_id uuid not null,
  id uuid not null,
  name character varying(63) not null,
  slug character varying(63) not null,
  updated_at timestamp(3) with time zone not null,
  visibility text not null,
  constraint buckets_application_id_applications_id_fk FOREIGN KEY (application_id) REFERENCES applications(id) ON DELETE RESTRICT,
  constraint buckets_environment_id_environments_id_fk FOREIGN KEY (environment_id) REFERENCES environments(id) ON DELETE RESTRICT,
  constraint buckets_name UNIQUE (environment_id, name),
  constraint buckets_pkey PRIMARY KEY (id),
  constraint buckets_slug UNIQUE (slug),
  constraint buckets_visibility CHECK ((visibility = ANY (ARRAY['public'::text, 'private'::text])))
);

create table build_caches (
  bytes bigint not null,
  environment_id uuid not null,
  key text not null,
  sha256 bytea not null,
  used_at timestamp(3) with time zone not null,
  constraint build_caches_environment_id_environments_id_fk FOREIGN KEY (environment_id) REFERENCES environments(id) ON DELETE CASCADE,
  constraint build_caches_environment_id_key_pk PRIMARY KEY (environment_id, key),
  constraint build_caches_sha256_artifacts_sha256_fk FOREIGN KEY (sha256) REFERENCES artifacts(sha256)
);

create table build_logs (
  created_at timestamp(3) with time zone not null,
  deployment_id uuid not null,
  id uuid not null,
  message text not null,
  type text not null,
  constraint build_logs_deployment_id_created_at_pk PRIMARY KEY (deployment_id, created_at),
  constraint build_logs_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint build_logs_id UNIQUE (deployment_id, id)
);

create table cron_runs (
  completed_at timestamp(3) with time zone,
  cron_id uuid not null,
  due_at timestamp(3) with time zone not null,
  edge_id uuid,
  error text,
  id uuid not null,
  lease_until timestamp(3) with time zone not null,
  outcome text,
  slot uuid,
  started_at timestamp(3) with time zone,
  status integer,
  trigger text not null,
  constraint cron_runs_cron_id_deployment_crons_id_fk FOREIGN KEY (cron_id) REFERENCES deployment_crons(id) ON DELETE CASCADE,
  constraint cron_runs_end CHECK (((completed_at IS NULL) = (outcome IS NULL))),
  constraint cron_runs_once UNIQUE (slot, due_at),
  constraint cron_runs_outcome CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed'::text]))),
  constraint cron_runs_pkey PRIMARY KEY (id),
  constraint cron_runs_slot CHECK (((trigger = 'schedule'::text) = (slot IS NOT NULL))),
  constraint cron_runs_trigger CHECK ((trigger = ANY (ARRAY['schedule'::text, 'manual'::text])))
);

create table deployment_counts (
  application_id uuid not null,
  deployments bigint not null,
  status text not null,
  constraint deployment_counts_application_id_applications_id_fk FOREIGN KEY (application_id) REFERENCES applications(id) ON DELETE CASCADE,
  constraint deployment_counts_application_id_status_pk PRIMARY KEY (application_id, status)
);

create table deployment_crons (
  deployment_id uuid not null,
  id uuid not null,
  n integer not null,
  path text not null,
  schedule text not null,
  constraint deployment_crons_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint deployment_crons_order UNIQUE (deployment_id, n),
  constraint deployment_crons_pkey PRIMARY KEY (id)
);

create table deployment_fallbacks (
  bytes bigint not null,
  deployment_id uuid not null,
  path text not null,
  sha256 bytea not null,
  constraint deployment_fallbacks_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint deployment_fallbacks_deployment_id_path_pk PRIMARY KEY (deployment_id, path),
  constraint deployment_fallbacks_sha256_artifacts_sha256_fk FOREIGN KEY (sha256) REFERENCES artifacts(sha256)
);

create table deployment_files (
  bytes bigint not null,
  content_type text not null,
  deployment_id uuid not null,
  path text not null,
  sha256 bytea not null,
  constraint deployment_files_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint deployment_files_deployment_id_path_pk PRIMARY KEY (deployment_id, path),
  constraint deployment_files_sha256_artifacts_sha256_fk FOREIGN KEY (sha256) REFERENCES artifacts(sha256)
);

create table deployment_functions (
  cold_starts bigint not null default 0,
  command text,
  deployment_id uuid not null,
  environment jsonb not null,
  handler text,
  has_helpers boolean not null,
  id uuid not null,
  is_web boolean not null,
  kind text not null,
  memory_mb integer,
  path text not null,
  requests bigint not null default 0,
  working_folder text not null default ''::text,
  constraint deployment_functions_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint deployment_functions_entry CHECK (((handler IS NOT NULL) OR (command IS NOT NULL))),
  constraint deployment_functions_kind CHECK ((kind = ANY (ARRAY['handler'::text, 'edge'::text, 'worker'::text, 'server'::text]))),
  constraint deployment_functions_path UNIQUE (deployment_id, path),
  constraint deployment_functions_pkey PRIMARY KEY (id)
);

create table deployments (
  activated_at timestamp(3) with time zone,
  application_id uuid not null,
  archive_bytes bigint,
  attempt integer not null default 0,
  build_ended_at timestamp(3) with time zone,
  build_started_at timestamp(3) with time zone,
  completed_parts text,
  created_at timestamp(3) with time zone not null,
  created_by jsonb not null,
  deadline_at timestamp(3) with time zone,
  environment_id uuid not null,
  failure_reason text,
  files_compressed_at timestamp(3) with time zone,
  files_removed_at timestamp(3) with time zone,
  git jsonb,
  id uuid not null,
  interruptions integer not null default 0,
  label character varying(63) not null,
  last_log_at timestamp(3) with time zone,
  lease_until timestamp(3) with time zone,
  organization_id uuid not null,
  output jsonb,
  pinned_until timestamp(3) with time zone,
  retired_at timestamp(3) with time zone,
  root_directory text,
  sealed_variables text,
  seq bigint not null,
  size_bytes bigint,
  status text not null,
  updated_at timestamp(3) with time zone not null,
  upload_id uuid,
  variables jsonb,
  constraint deployments_application_id_applications_id_fk FOREIGN KEY (application_id) REFERENCES applications(id) ON DELETE CASCADE,
  constraint deployments_environment_id_environments_id_fk FOREIGN KEY (environment_id) REFERENCES environments(id) ON DELETE CASCADE,
  constraint deployments_label UNIQUE (label),
  constraint deployments_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint deployments_pkey PRIMARY KEY (id),
  constraint deployments_seq UNIQUE (environment_id, seq),
  constraint deployments_status CHECK ((status = ANY (ARRAY['PENDING'::text, 'QUEUED'::text, 'STARTING'::text, 'BUILDING'::text, 'PROVISIONING'::text, 'ACTIVE'::text, 'FAILED'::text]))),
  constraint deployments_upload UNIQUE (upload_id)
);

create table edges (
  id uuid not null,
  internal_url text not null,
  lease_until timestamp(3) with time zone not null,
  constraint edges_pkey PRIMARY KEY (id)
);

create table env_vars (
  application_id uuid,
  ciphertext bytea not null,
  created_at timestamp(3) with time zone not null,
  environment_id uuid,
  id uuid not null,
  kek_id text not null,
  key character varying(255) not null,
  layer text not null,
  organization_id uuid,
  sensitive boolean not null,
  updated_at timestamp(3) with time zone not null,
  constraint env_vars_application_id_applications_id_fk FOREIGN KEY (application_id) REFERENCES applications(id) ON DELETE CASCADE,
  constraint env_vars_environment_id_environments_id_fk FOREIGN KEY (environment_id) REFERENCES environments(id) ON DELETE CASCADE,
  constraint env_vars_layer CHECK (
CASE layer
    WHEN 'organization'::text THEN ((organization_id IS NOT NULL) AND (application_id IS NULL) AND (environment_id IS NULL))
    WHEN 'application'::text THEN ((organization_id IS NULL) AND (application_id IS NOT NULL) AND (environment_id IS NULL))
    WHEN 'environment'::text THEN ((organization_id IS NULL) AND (application_id IS NOT NULL) AND (environment_id IS NOT NULL))
    ELSE false
END),
  constraint env_vars_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint env_vars_pkey PRIMARY KEY (id)
);

create table environment_deployment_counts (
  deployments bigint not null,
  environment_id uuid not null,
  status text not null,
  constraint environment_deployment_counts_environment_id_status_pk PRIMARY KEY (environment_id, status)
);

create table environments (
  application_id uuid not null,
  current_deployment_id uuid,
  current_seq bigint not null default 0,
  id uuid not null,
  last_seq bigint not null default 0,
  name text not null,
  slug text not null,
  constraint environments_application_id_applications_id_fk FOREIGN KEY (application_id) REFERENCES applications(id) ON DELETE CASCADE,
  constraint environments_known CHECK ((slug = ANY (ARRAY['production'::text, 'preview'::text]))),
  constraint environments_pkey PRIMARY KEY (id),
  constraint environments_slug UNIQUE (application_id, slug)
);

create table followed_requests (
  application_id uuid not null,
  number bigint not null identity,
  request_id uuid not null,
  stored_at timestamp(3) with time zone not null,
  constraint followed_requests_application_id_number_pk PRIMARY KEY (application_id, number)
);

create table function_files (
  bytes bigint not null,
  function_id uuid not null,
  is_executable boolean not null,
  path text not null,
  sha256 bytea not null,
  constraint function_files_function_id_deployment_functions_id_fk FOREIGN KEY (function_id) REFERENCES deployment_functions(id) ON DELETE CASCADE,
  constraint function_files_function_id_path_pk PRIMARY KEY (function_id, path),
  constraint function_files_sha256_artifacts_sha256_fk FOREIGN KEY (sha256) REFERENCES artifacts(sha256)
);

create table function_links (
  function_id uuid not null,
  path text not null,
  target text not null,
  constraint function_links_function_id_deployment_functions_id_fk FOREIGN KEY (function_id) REFERENCES deployment_functions(id) ON DELETE CASCADE,
  constraint function_links_function_id_path_pk PRIMARY KEY (function_id, path)
);

create table function_slots (
  function_id uuid not null,
  memory_bytes bigint not null,
  process_id uuid not null,
  seen_at timestamp(3) with time zone not null,
  slots integer not null,
  constraint function_slots_function_id_deployment_functions_id_fk FOREIGN KEY (function_id) REFERENCES deployment_functions(id) ON DELETE CASCADE,
  constraint function_slots_function_id_process_id_pk PRIMARY KEY (function_id, process_id)
);

create table function_time (
  busy_ms bigint not null,
  month timestamp(3) with time zone not null,
  organization_id uuid not null,
  constraint function_time_organization_id_month_pk PRIMARY KEY (organization_id, month),
  constraint function_time_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);

create table hostnames (
  application_id uuid not null,
  branch_id uuid,
  created_at timestamp(3) with time zone not null,
  deployment_id uuid,
  id uuid not null,
  label character varying(63) not null,
  source text not null,
  type text not null,
  constraint hostnames_application_id_applications_id_fk FOREIGN KEY (application_id) REFERENCES applications(id) ON DELETE CASCADE,
  constraint hostnames_pkey PRIMARY KEY (id),
  constraint hostnames_source CHECK ((source = ANY (ARRAY['system'::text, 'user'::text]))),
  constraint hostnames_type CHECK ((type = ANY (ARRAY['DEPLOYMENT'::text, 'BRANCH'::text, 'APP'::text])))
);

create table idempotent_requests (
  caller_id text not null,
  ciphertext bytea,
  created_at timestamp(3) with time zone not null,
  kek_id text,
  key text not null,
  operation text not null,
  constraint idempotent_requests_caller_id_operation_key_pk PRIMARY KEY (caller_id, operation, key)
);

create table image_caches (
  deployment_id uuid not null,
  epoch bigint not null,
  constraint image_caches_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint image_caches_pkey PRIMARY KEY (deployment_id)
);

create table image_purges (
  deployment_id uuid not null,
  epoch bigint not null,
  purged_at timestamp(3) with time zone not null,
  source text not null,
  constraint image_purges_deployment_id_image_caches_deployment_id_fk FOREIGN KEY (deployment_id) REFERENCES image_caches(deployment_id) ON DELETE CASCADE,
  constraint image_purges_deployment_id_source_pk PRIMARY KEY (deployment_id, source)
);

create table image_totals (
  bytes bigint not null,
  organization_id uuid not null,
  constraint image_totals_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint image_totals_pkey PRIMARY KEY (organization_id)
);

create table image_variants (
  blob_id uuid not null,
  bytes bigint not null,
  content_type text not null,
  deployment_id uuid not null,
  key bytea not null,
  last_used_at timestamp(3) with time zone not null,
  organization_id uuid not null,
  source text not null,
  constraint image_variants_blob_id_blobs_id_fk FOREIGN KEY (blob_id) REFERENCES blobs(id),
  constraint image_variants_deployment_id_image_caches_deployment_id_fk FOREIGN KEY (deployment_id) REFERENCES image_caches(deployment_id) ON DELETE CASCADE,
  constraint image_variants_deployment_id_key_pk PRIMARY KEY (deployment_id, key),
  constraint image_variants_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);

create table invitations (
  created_at timestamp(3) with time zone not null,
  email text not null,
  ended_at timestamp(3) with time zone,
  expires_at timestamp(3) with time zone not null,
  id uuid not null,
  invited_by_user_id text,
  is_mailed boolean not null,
  organization_id uuid not null,
  role text not null,
  token_hash bytea not null,
  constraint invitations_inviter FOREIGN KEY (organization_id, invited_by_user_id) REFERENCES organization_members(organization_id, user_id) ON DELETE SET NULL (invited_by_user_id),
  constraint invitations_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint invitations_pkey PRIMARY KEY (id),
  constraint invitations_role CHECK ((role = ANY (ARRAY['OWNER'::text, 'ADMIN'::text, 'MEMBER'::text]))),
  constraint invitations_token UNIQUE (token_hash)
);

create table isr_claims (
  deployment_id uuid not null,
  key bytea not null,
  until timestamp(3) with time zone not null,
  constraint isr_claims_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint isr_claims_deployment_id_key_pk PRIMARY KEY (deployment_id, key)
);

create table isr_data (
  bytes bigint not null,
  deployment_id uuid not null,
  key text not null,
  stored_at timestamp(3) with time zone not null,
  tags text[] not null,
  value bytea not null,
  constraint isr_data_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint isr_data_deployment_id_key_pk PRIMARY KEY (deployment_id, key)
);

create table isr_pages (
  begun_at timestamp(3) with time zone not null,
  blob_id uuid not null,
  bytes bigint not null,
  deployment_id uuid not null,
  fresh_until timestamp(3) with time zone,
  headers jsonb not null,
  key bytea not null,
  path text not null,
  stale_until timestamp(3) with time zone,
  status smallint not null,
  tags text[] not null,
  constraint isr_pages_blob_id_blobs_id_fk FOREIGN KEY (blob_id) REFERENCES blobs(id),
  constraint isr_pages_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint isr_pages_deployment_id_key_pk PRIMARY KEY (deployment_id, key)
);

create table isr_tags (
  deployment_id uuid not null,
  expired_at timestamp(3) with time zone,
  stale_at timestamp(3) with time zone not null,
  tag text not null,
  constraint isr_tags_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint isr_tags_deployment_id_tag_pk PRIMARY KEY (deployment_id, tag)
);

create table isr_totals (
  data bigint not null default 0,
  data_bytes bigint not null default 0,
  deployment_id uuid not null,
  page_bytes bigint not null default 0,
  pages bigint not null default 0,
  constraint isr_totals_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint isr_totals_pkey PRIMARY KEY (deployment_id)
);

create table membership_counts (
  organizations integer not null,
  user_id text not null,
  constraint membership_counts_pkey PRIMARY KEY (user_id)
);

create table object_blobs (
  blob_id uuid not null,
  length bigint not null,
  n integer not null,
  object_id uuid not null,
  part integer,
  part_checksum text,
  constraint object_blobs_blob_id_blobs_id_fk FOREIGN KEY (blob_id) REFERENCES blobs(id),
  constraint object_blobs_object_id_n_pk PRIMARY KEY (object_id, n),
  constraint object_blobs_object_id_objects_id_fk FOREIGN KEY (object_id) REFERENCES objects(id) ON DELETE CASCADE
);

create table objects (
  blob_count integer not null,
  bucket_id uuid not null,
  checksum jsonb,
  checksum_md5 bytea,
  checksum_sha1 bytea,
  checksum_sha256 bytea,
  content_length bigint not null,
  content_type text not null,
  created_at timestamp(3) with time zone not null,
  deleted_at timestamp(3) with time zone,
  etag text not null,
  headers jsonb not null,
  id uuid not null,
  key text not null,
  metadata jsonb not null,
  tags jsonb not null,
  updated_at timestamp(3) with time zone not null,
  upload_session_id uuid,
  uploaded_at timestamp(3) with time zone not null,
  constraint objects_bucket_id_buckets_id_fk FOREIGN KEY (bucket_id) REFERENCES buckets(id),
  constraint objects_pkey PRIMARY KEY (id)
);

create table open_streams (
  expires_at timestamp(3) with time zone not null,
  id uuid not null,
  process_id uuid not null,
  resource text not null,
  constraint open_streams_pkey PRIMARY KEY (id)
);

create table organization_members (
  id uuid not null,
  joined_at timestamp(3) with time zone not null,
  organization_id uuid not null,
  role text not null,
  user_id text not null,
  constraint organization_members_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint organization_members_pkey PRIMARY KEY (id),
  constraint organization_members_role CHECK ((role = ANY (ARRAY['OWNER'::text, 'ADMIN'::text, 'MEMBER'::text]))),
  constraint organization_members_user UNIQUE (organization_id, user_id)
);

create table organizations (
  application_count integer not null default 0,
  created_at timestamp(3) with time zone not null,
  id uuid not null,
  image_url text,
  name character varying(255) not null,
  slug character varying(50) not null,
  updated_at timestamp(3) with time zone not null,
  constraint organizations_pkey PRIMARY KEY (id),
  constraint organizations_slug UNIQUE (slug)
);

create table pattern_verdicts (
  key bytea not null,
  steps integer not null,
  used_at timestamp(3) with time zone not null,
  verdict jsonb not null,
  constraint pattern_verdicts_pkey PRIMARY KEY (key)
);

create table product_entitlements (
  created_at timestamp(3) with time zone not null,
  granted_by_user_id text,
  id uuid not null,
  organization_id uuid not null,
  product text not null,
  revoked_at timestamp(3) with time zone,
  status text not null,
  updated_at timestamp(3) with time zone not null,
  constraint product_entitlements_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint product_entitlements_pkey PRIMARY KEY (id),
  constraint product_entitlements_product UNIQUE (organization_id, product),
  constraint product_entitlements_status CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'SUSPENDED'::text, 'REVOKED'::text])))
);

create table product_subscriptions (
  activated_by_user_id text,
  created_at timestamp(3) with time zone not null,
  id uuid not null,
  organization_id uuid not null,
  plan text not null,
  product text not null,
  status text not null,
  updated_at timestamp(3) with time zone not null,
  constraint product_subscriptions_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint product_subscriptions_pkey PRIMARY KEY (id),
  constraint product_subscriptions_plan CHECK ((plan = ANY (ARRAY['free'::text, 'pro'::text]))),
  constraint product_subscriptions_product UNIQUE (organization_id, product),
  constraint product_subscriptions_status CHECK ((status = ANY (ARRAY['ACTIVE'::text, 'CANCELED'::text])))
);

create table profiles (
  email text,
  family_name text,
  given_name text,
  image_url text,
  learned_at timestamp(3) with time zone not null,
  user_id text not null,
  constraint profiles_pkey PRIMARY KEY (user_id)
);

create table quota_overrides (
  "limit" bigint not null,
  organization_id uuid not null,
  quota text not null,
  updated_at timestamp(3) with time zone not null,
  constraint quota_overrides_limit CHECK (("limit" >= 0)),
  constraint quota_overrides_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint quota_overrides_organization_id_quota_pk PRIMARY KEY (organization_id, quota)
);

create table removed_members (
  organization_id uuid not null,
  removed_at timestamp(3) with time zone not null,
  user_id text not null,
  constraint removed_members_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint removed_members_organization_id_user_id_pk PRIMARY KEY (organization_id, user_id)
);

create table request_counts (
  application_id uuid not null,
  cache_status text,
  country text,
  deployment_id uuid,
  hostname text not null,
  hour timestamp(3) with time zone not null,
  kind bytea not null,
  method text not null,
  requests bigint not null,
  status smallint not null
);

create table request_logs (
  application_id uuid not null,
  bytes_sent bigint not null,
  cache_status text,
  completed_at timestamp(3) with time zone not null,
  country text,
  deployment_id uuid,
  duration_ms integer not null,
  edge_location text,
  hostname text not null,
  id uuid not null,
  method text not null,
  path text not null,
  protocol text not null,
  query text not null,
  referer text,
  region text,
  request_body_bytes bigint not null,
  request_headers jsonb not null,
  response_body_bytes bigint not null,
  response_headers jsonb not null,
  served_by jsonb not null,
  status smallint not null,
  user_agent text,
  constraint request_logs_application_id_id_pk PRIMARY KEY (application_id, id)
) partition by RANGE (id);

create table request_path_ranks (
  application_id uuid not null,
  first_path bytea not null,
  hour timestamp(3) with time zone not null,
  kind bytea not null,
  paths bytea[] not null,
  running integer[] not null,
  constraint request_path_ranks_hour_application_id_kind_first_path_pk PRIMARY KEY (hour, application_id, kind, first_path)
);

create table request_place_counts (
  application_id uuid not null,
  edge_location text not null,
  hour timestamp(3) with time zone not null,
  region text not null,
  requests bigint not null,
  storage_bucket_id text not null,
  constraint request_place_counts_key PRIMARY KEY (application_id, hour, region, edge_location, storage_bucket_id)
);

create table request_summaries (
  application_id uuid not null,
  at timestamp(3) with time zone not null,
  bucket smallint not null,
  bytes_sent bigint not null,
  dimension text not null,
  minutes smallint not null,
  request_body_bytes bigint not null,
  requests bigint not null,
  response_body_bytes bigint not null,
  value text not null,
  constraint request_summaries_key PRIMARY KEY (application_id, minutes, dimension, at, value, bucket)
);

create table runtime_logs (
  application_id uuid not null,
  deployment_id uuid not null,
  function_id uuid not null,
  function_name text not null,
  id uuid not null,
  level text not null,
  message text not null,
  number bigint not null default nextval('runtime_logs_number_seq'::regclass),
  request_id text,
  slot integer not null,
  constraint runtime_logs_application_id_id_pk PRIMARY KEY (application_id, id)
) partition by RANGE (id);

create table signing_keys (
  activates_at timestamp(3) with time zone not null,
  alg text not null,
  ciphertext bytea not null,
  created_at timestamp(3) with time zone not null default now(),
  kek_id text not null,
  kid text not null,
  public_jwk text not null,
  publish_at timestamp(3) with time zone not null,
  retires_at timestamp(3) with time zone,
  constraint signing_keys_pkey PRIMARY KEY (kid)
);

create table sticky_pins (
  edge_id uuid not null,
  expires_at timestamp(3) with time zone not null,
  function_id uuid not null,
  instance uuid,
  key_hash bytea not null,
  slot integer,
  constraint sticky_pins_function_id_deployment_functions_id_fk FOREIGN KEY (function_id) REFERENCES deployment_functions(id) ON DELETE CASCADE,
  constraint sticky_pins_function_id_key_hash_pk PRIMARY KEY (function_id, key_hash)
);

create table stored_bytes (
  bytes bigint not null,
  is_full boolean not null,
  measured_at timestamp(3) with time zone not null,
  organization_id uuid not null,
  trashed_bytes bigint not null,
  uploading_bytes bigint not null,
  constraint stored_bytes_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint stored_bytes_pkey PRIMARY KEY (organization_id)
);

create table upload_blobs (
  blob_id uuid not null,
  checksum text,
  etag text,
  length bigint not null,
  n integer not null,
  part integer not null,
  upload_id uuid not null,
  uploaded_at timestamp(3) with time zone not null,
  constraint upload_blobs_blob_id_blobs_id_fk FOREIGN KEY (blob_id) REFERENCES blobs(id),
  constraint upload_blobs_upload_id_part_n_pk PRIMARY KEY (upload_id, part, n),
  constraint upload_blobs_upload_id_uploads_id_fk FOREIGN KEY (upload_id) REFERENCES uploads(id) ON DELETE CASCADE
);

create table uploads (
  bucket_id uuid,
  checksum_algorithm text,
  checksum_md5 bytea,
  checksum_sha1 bytea,
  checksum_sha256 bytea,
  checksum_type text,
  concatenates text,
  content_length bigint,
  content_type text not null,
  created_at timestamp(3) with time zone not null,
  created_by text,
  expires_at timestamp(3) with time zone not null,
  failure_reason text,
  hash_state bytea,
  headers jsonb not null,
  id uuid not null,
  is_new_only boolean not null default false,
  is_partial boolean not null default false,
  key text not null,
  kind text not null,
  lease_holder uuid,
  metadata jsonb not null,
  object_id uuid,
  "offset" bigint not null default 0,
  state text not null,
  tags jsonb not null,
  token_hash bytea,
  updated_at timestamp(3) with time zone not null,
  upload_metadata text,
  uploaded_at timestamp(3) with time zone,
  constraint uploads_bucket_id_buckets_id_fk FOREIGN KEY (bucket_id) REFERENCES buckets(id),
  constraint uploads_pkey PRIMARY KEY (id),
  constraint uploads_state CHECK ((state = ANY (ARRAY['pending'::text, 'ready'::text, 'completed'::text, 'failed'::text, 'expired'::text])))
);

CREATE INDEX activities_by_age ON public.activities USING btree (created_at);

CREATE INDEX ai_budget_windows_by_age ON public.ai_budget_windows USING btree (starts_at);

CREATE INDEX ai_holds_by_expiry ON public.ai_holds USING btree (expires_at);

CREATE INDEX ai_holds_of_organization ON public.ai_holds USING btree (organization_id);

CREATE UNIQUE INDEX ai_provider_keys_provider ON public.ai_provider_keys USING btree (organization_id, provider);

CREATE INDEX ai_response_items_by_time ON public.ai_response_items USING btree (created_at);

CREATE INDEX ai_response_items_of_organization ON public.ai_response_items USING btree (organization_id);

CREATE INDEX ai_responses_by_id ON public.ai_responses USING btree (id);

CREATE INDEX ai_responses_by_time ON public.ai_responses USING btree (created_at);

CREATE INDEX ai_responses_of_organization ON public.ai_responses USING btree (organization_id);

CREATE INDEX ai_usage_events_of_application ON ONLY public.ai_usage_events USING btree (application_id, id) WHERE (application_id IS NOT NULL);

CREATE INDEX ai_usage_events_of_end_user ON ONLY public.ai_usage_events USING btree (organization_id, caller_end_user_id, id) WHERE (caller_end_user_id IS NOT NULL);

CREATE INDEX ai_usage_events_of_organization ON ONLY public.ai_usage_events USING btree (organization_id, id);

CREATE INDEX ai_usage_events_of_user ON ONLY public.ai_usage_events USING btree (organization_id, authenticated_user_id, id) WHERE (authenticated_user_id IS NOT NULL);

CREATE INDEX ai_video_jobs_by_expiry ON public.ai_video_jobs USING btree (expires_at);

CREATE INDEX ai_video_jobs_of_organization ON public.ai_video_jobs USING btree (organization_id);

CREATE INDEX ai_video_jobs_to_poll ON public.ai_video_jobs USING btree (poll_at) WHERE (poll_at IS NOT NULL);

CREATE INDEX api_keys_by_application ON public.api_keys USING btree (application_id, id);

CREATE INDEX api_keys_of_deployment ON public.api_keys USING btree (deployment_id) WHERE (deployment_id IS NOT NULL);

CREATE INDEX applications_by_organization ON public.applications USING btree (organization_id, id);

CREATE INDEX artifact_encodings_by_blob ON public.artifact_encodings USING btree (blob_id);

CREATE INDEX artifacts_by_blob ON public.artifacts USING btree (blob_id);

CREATE INDEX audit_events_by_subject ON public.audit_events USING btree (subject);

CREATE INDEX blobs_not_live ON public.blobs USING btree (created_at) WHERE (state <> 'live'::text);

CREATE INDEX buckets_deleted ON public.buckets USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);

CREATE INDEX build_caches_by_sha256 ON public.build_caches USING btree (sha256);

CREATE INDEX build_caches_by_use ON public.build_caches USING btree (used_at);

CREATE INDEX cron_runs_by_age ON public.cron_runs USING btree (due_at);

CREATE INDEX cron_runs_by_cron ON public.cron_runs USING btree (cron_id, id);

CREATE INDEX cron_runs_under_way ON public.cron_runs USING btree (lease_until) WHERE (completed_at IS NULL);

CREATE INDEX deployment_fallbacks_by_sha256 ON public.deployment_fallbacks USING btree (sha256);

CREATE INDEX deployment_files_by_sha256 ON public.deployment_files USING btree (sha256);

CREATE INDEX deployments_by_application ON public.deployments USING btree (application_id, id);

CREATE INDEX deployments_by_environment ON public.deployments USING btree (environment_id, id);

CREATE INDEX deployments_by_organization ON public.deployments USING btree (organization_id, id);

CREATE INDEX deployments_ended ON public.deployments USING btree (COALESCE(retired_at, updated_at)) WHERE ((retired_at IS NOT NULL) OR (status = 'FAILED'::text));

CREATE INDEX deployments_of_environment ON public.deployments USING btree (environment_id, status, id);

CREATE INDEX deployments_uncompressed ON public.deployments USING btree (id) WHERE ((status = 'ACTIVE'::text) AND (retired_at IS NULL) AND (files_compressed_at IS NULL));

CREATE INDEX deployments_under_way ON public.deployments USING btree (organization_id, status) WHERE (status <> ALL (ARRAY['ACTIVE'::text, 'FAILED'::text]));

CREATE INDEX deployments_unretired ON public.deployments USING btree (id) WHERE ((status = 'ACTIVE'::text) AND (retired_at IS NULL));

CREATE INDEX deployments_with_files_to_remove ON public.deployments USING btree (id) WHERE ((files_removed_at IS NULL) AND (output IS NOT NULL) AND ((retired_at IS NOT NULL) OR (status = 'FAILED'::text)));

CREATE UNIQUE INDEX env_vars_application_key ON public.env_vars USING btree (application_id, key) WHERE (layer = 'application'::text);

CREATE INDEX env_vars_by_application ON public.env_vars USING btree (application_id, id);

CREATE UNIQUE INDEX env_vars_environment_key ON public.env_vars USING btree (environment_id, key) WHERE (layer = 'environment'::text);

CREATE UNIQUE INDEX env_vars_organization_key ON public.env_vars USING btree (organization_id, key) WHERE (layer = 'organization'::text);

CREATE INDEX followed_requests_by_age ON public.followed_requests USING btree (stored_at);

CREATE INDEX followed_requests_by_id ON public.followed_requests USING btree (application_id, request_id);

CREATE INDEX function_files_by_sha256 ON public.function_files USING btree (sha256);

CREATE INDEX hostnames_by_application ON public.hostnames USING btree (application_id, id);

CREATE UNIQUE INDEX hostnames_label ON public.hostnames USING btree (label);

CREATE INDEX hostnames_of_deployment ON public.hostnames USING btree (deployment_id);

CREATE UNIQUE INDEX hostnames_preview ON public.hostnames USING btree (application_id) WHERE (type = 'BRANCH'::text);

CREATE UNIQUE INDEX hostnames_production ON public.hostnames USING btree (application_id) WHERE (type = 'APP'::text);

CREATE INDEX idempotent_requests_by_age ON public.idempotent_requests USING btree (created_at);

CREATE INDEX image_purges_by_time ON public.image_purges USING btree (purged_at);

CREATE INDEX image_variants_by_blob ON public.image_variants USING btree (blob_id);

CREATE INDEX image_variants_by_source ON public.image_variants USING btree (deployment_id, source);

CREATE INDEX image_variants_by_use ON public.image_variants USING btree (organization_id, last_used_at);

CREATE INDEX invitations_by_address ON public.invitations USING btree (email, created_at);

CREATE INDEX invitations_by_expiry ON public.invitations USING btree (expires_at);

CREATE INDEX invitations_by_organization ON public.invitations USING btree (organization_id, created_at);

CREATE UNIQUE INDEX invitations_live_address ON public.invitations USING btree (organization_id, email) WHERE (ended_at IS NULL);

CREATE INDEX isr_claims_by_time ON public.isr_claims USING btree (until);

CREATE INDEX isr_data_by_age ON public.isr_data USING btree (deployment_id, stored_at);

CREATE INDEX isr_pages_by_age ON public.isr_pages USING btree (deployment_id, begun_at);

CREATE INDEX isr_pages_by_blob ON public.isr_pages USING btree (blob_id);

CREATE INDEX object_blobs_by_blob ON public.object_blobs USING btree (blob_id);

CREATE UNIQUE INDEX objects_live ON public.objects USING btree (bucket_id, key) WHERE (deleted_at IS NULL);

CREATE INDEX objects_trash ON public.objects USING btree (bucket_id, deleted_at DESC, id DESC) WHERE (deleted_at IS NOT NULL);

CREATE INDEX open_streams_by_resource ON public.open_streams USING btree (resource);

CREATE INDEX organization_members_by_user ON public.organization_members USING btree (user_id, organization_id);

CREATE INDEX pattern_verdicts_by_use ON public.pattern_verdicts USING btree (used_at);

CREATE INDEX removed_members_by_time ON public.removed_members USING btree (removed_at);

CREATE UNIQUE INDEX request_counts_kind ON public.request_counts USING btree (application_id, hour, kind);

CREATE INDEX request_logs_failures ON ONLY public.request_logs USING btree (application_id, ((status / 100)), id) WHERE (status >= 400);

CREATE INDEX request_logs_paths ON ONLY public.request_logs USING btree (application_id, path text_pattern_ops, id);

CREATE INDEX request_logs_served_by ON ONLY public.request_logs USING btree (application_id, COALESCE(((served_by -> 'storageObject'::text) ->> 'id'::text), ((served_by -> 'deploymentAsset'::text) ->> 'id'::text), ((served_by -> 'deploymentFunction'::text) ->> 'id'::text)), id);

CREATE INDEX request_summaries_by_age ON public.request_summaries USING btree (minutes, at);

CREATE INDEX runtime_logs_in_order ON ONLY public.runtime_logs USING btree (application_id, number);

CREATE INDEX runtime_logs_of_deployment ON ONLY public.runtime_logs USING btree (deployment_id, id);

CREATE INDEX runtime_logs_of_request ON ONLY public.runtime_logs USING btree (application_id, request_id, id);

CREATE UNIQUE INDEX signing_keys_activates_at ON public.signing_keys USING btree (activates_at);

CREATE INDEX signing_keys_retires_at ON public.signing_keys USING btree (retires_at);

CREATE INDEX sticky_pins_expired ON public.sticky_pins USING btree (expires_at);

CREATE INDEX upload_blobs_by_blob ON public.upload_blobs USING btree (blob_id);

CREATE INDEX uploads_by_bucket ON public.uploads USING btree (bucket_id, kind, key, id);

CREATE INDEX uploads_by_expiry ON public.uploads USING btree (expires_at);

CREATE INDEX uploads_of_deployments ON public.uploads USING btree (id) WHERE (kind = 'deployment'::text);

CREATE OR REPLACE FUNCTION public.admit_ai_calls(calls json)
 RETURNS TABLE(n integer, outcome text, details json)
 LANGUAGE plpgsql
AS $function$
declare
	scope record;
	limits record;
	admitted integer[] := '{}';
	used_cost numeric[];
	used_requests bigint[];
	used_tokens bigint[];
	more_cost numeric;
	more_requests bigint;
	more_tokens bigint;
	exceeded json[];
	needs text;
begin
	perform lock_ai_windows(calls);
	-- Calls of one scope have the same limits: what they use is added up here and written once.
	for scope in
		select c.organization_id, c.application_id, c.user_id, c.is_by_operator, min(c.started_at) as started_at, max(c.allowance_nanos) as allowance,
			array_agg(c.n order by c.n) as ns, array_agg(c.cost_nanos order by c.n) as costs, array_agg(c.tokens order by c.n) as tokens
		from json_to_recordset(calls) as c(n integer, organization_id uuid, application_id uuid, user_id text, is_by_operator boolean,
			started_at timestamptz, allowance_nanos numeric, cost_nanos numeric, tokens bigint)
		group by 1, 2, 3, 4, date_trunc('day', c.started_at, 'UTC') order by min(c.n)
	loop
		select array_agg(l.is_allowance) as is_allowance, array_agg(l.application_id) as application_ids, array_agg(l.user_id) as user_ids,
			array_agg(l.period) as periods, array_agg(l.max_cost) as max_cost, array_agg(l.max_requests) as max_requests,
			array_agg(l.max_tokens) as max_tokens, array_agg(l.max_request_cost) as max_request_cost, array_agg(w.id) as windows,
			array_agg(w.spent_cost_nanos + w.held_cost_nanos) as cost, array_agg(w.spent_requests + w.held_requests) as requests,
			array_agg(w.spent_tokens + w.held_tokens) as tokens, coalesce(bool_or(w.id is null), false) as is_unopened, count(*)::integer as count
		into limits
		from (
			select false as is_allowance, b.application_id, b.user_id, b.period, b.max_cost_micros::numeric * 1000 as max_cost, b.max_requests,
				b.max_tokens, b.max_request_cost_micros::numeric * 1000 as max_request_cost
			from ai_budgets b
			where b.organization_id = scope.organization_id and b.enabled
				and (b.application_id is null or b.application_id = scope.application_id) and (b.user_id is null or b.user_id = scope.user_id)
			union all
			select true, null, null, 'month', scope.allowance, null, null, null where scope.allowance is not null
		) l
		left join ai_budget_windows w on w.organization_id = scope.organization_id and w.period = l.period
			and w.starts_at = date_trunc(l.period, scope.started_at, 'UTC') and w.is_allowance = l.is_allowance
			and w.application_id is not distinct from l.application_id and w.user_id is not distinct from l.user_id;
		if limits.is_unopened then
			return query select place, 'unopened', (
				select json_agg(json_build_object('isAllowance', t.is_allowance, 'applicationId', t.application_id, 'userId', t.user_id, 'period', t.period))
				from unnest(limits.is_allowance, limits.application_ids, limits.user_ids, limits.periods) as t(is_allowance, application_id, user_id, period)
			) from unnest(scope.ns) place;
			continue;
		end if;
		used_cost := limits.cost;
		used_requests := limits.requests;
		used_tokens := limits.tokens;
		more_cost := 0;
		more_requests := 0;
		more_tokens := 0;
		for i in 1 .. cardinality(scope.ns) loop
			exceeded := '{}';
			needs := null;
			for j in 1 .. limits.count loop
				if (limits.max_cost[j] is not null or limits.max_request_cost[j] is not null) and scope.costs[i] is null then
					needs := 'cost';
				elsif limits.max_tokens[j] is not null and scope.tokens[i] is null then
					needs := 'tokens';
				end if;
				exit when needs is not null;
				-- With a maximum of 0 nothing is admitted, not even what is free.
				if limits.max_cost[j] = 0 or used_cost[j] + scope.costs[i] > limits.max_cost[j] then
					exceeded := exceeded || json_build_object('limit', j, 'maximum', 'cost', 'remaining', greatest(limits.max_cost[j] - used_cost[j], 0)::text);
				end if;
				if limits.max_request_cost[j] = 0 or scope.costs[i] > limits.max_request_cost[j] then
					exceeded := exceeded || json_build_object('limit', j, 'maximum', 'request cost', 'remaining', limits.max_request_cost[j]::text);
				end if;
				if limits.max_requests[j] = 0 or used_requests[j] + 1 > limits.max_requests[j] then
					exceeded := exceeded || json_build_object('limit', j, 'maximum', 'requests', 'remaining', greatest(limits.max_requests[j] - used_requests[j], 0)::text);
				end if;
				if limits.max_tokens[j] = 0 or used_tokens[j] + scope.tokens[i] > limits.max_tokens[j] then
					exceeded := exceeded || json_build_object('limit', j, 'maximum', 'tokens', 'remaining', greatest(limits.max_tokens[j] - used_tokens[j], 0)::text);
				end if;
			end loop;
			n := scope.ns[i];
			if needs is not null then
				outcome := 'unbounded';
				details := to_json(needs);
			elsif cardinality(exceeded) > 0 then
				outcome := 'refused';
				select json_agg(json_build_object('maximum', x ->> 'maximum', 'remaining', x ->> 'remaining',
					'isAllowance', limits.is_allowance[(x ->> 'limit')::integer], 'applicationId', limits.application_ids[(x ->> 'limit')::integer],
					'userId', limits.user_ids[(x ->> 'limit')::integer], 'period', limits.periods[(x ->> 'limit')::integer]))
				into details from unnest(exceeded) x;
			else
				outcome := 'admitted';
				details := null;
				admitted := admitted || n;
				more_cost := more_cost + coalesce(scope.costs[i], 0);
				more_requests := more_requests + 1;
				more_tokens := more_tokens + coalesce(scope.tokens[i], 0);
				for j in 1 .. limits.count loop
					used_cost[j] := used_cost[j] + coalesce(scope.costs[i], 0);
					used_requests[j] := used_requests[j] + 1;
					used_tokens[j] := used_tokens[j] + coalesce(scope.tokens[i], 0);
				end loop;
			end if;
			return next;
		end loop;
		if more_requests > 0 then
			update ai_budget_windows w set held_cost_nanos = w.held_cost_nanos + more_cost, held_requests = w.held_requests + more_requests,
				held_tokens = w.held_tokens + more_tokens
			from ai_windows_of(scope.organization_id, scope.application_id, scope.user_id, scope.is_by_operator, scope.started_at) v where v.id = w.id;
		end if;
	end loop;
	insert into ai_holds (id, organization_id, application_id, user_id, is_by_operator, started_at, cost_nanos, tokens, event, expires_at)
	select c.id, c.organization_id, c.application_id, c.user_id, c.is_by_operator, c.started_at, coalesce(c.cost_nanos, 0), coalesce(c.tokens, 0),
		c.event, c.expires_at
	from json_to_recordset(calls) as c(n integer, id uuid, organization_id uuid, application_id uuid, user_id text, is_by_operator boolean,
		started_at timestamptz, cost_nanos numeric, tokens numeric, event jsonb, expires_at timestamptz)
	where c.n = any(admitted);
end $function$;

CREATE OR REPLACE FUNCTION public.ai_usage_lock(organization_id uuid)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
AS $function$ select hashtext(organization_id::text) & 63 $function$;

CREATE OR REPLACE FUNCTION public.ai_windows_of(organization_id uuid, application_id uuid, user_id text, is_by_operator boolean, started_at timestamp with time zone)
 RETURNS SETOF ai_budget_windows
 LANGUAGE sql
 STABLE
AS $function$
	select w.* from ai_budget_windows w
	where w.organization_id = $1
		and (w.starts_at, w.period) in (
			(date_trunc('day', $5, 'UTC'), 'day'), (date_trunc('month', $5, 'UTC'), 'month'))
		and (w.application_id is null or w.application_id = $2)
		and (w.user_id is null or w.user_id = $3)
		and (not w.is_allowance or $4)
$function$;

CREATE OR REPLACE FUNCTION public.count_ai_usage(arrived ai_usage_events[], gone ai_usage_events[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
	-- A window is made under the exclusive lock, of the sums: what is counted here is in those, or added to the window below.
	perform pg_advisory_xact_lock_shared(7150114, lock)
		from (select distinct ai_usage_lock(e.organization_id) as lock from unnest(arrived || gone) e order by 1) locks;

	perform w.id from ai_budget_windows w
		where w.id in (
			select c.id from unnest(arrived || gone) e,
				ai_windows_of(e.organization_id, e.application_id, e.authenticated_user_id, e.key_owner is not distinct from 'operator', e.started_at) c)
		order by w.id for no key update;
	update ai_budget_windows w set
		spent_cost_nanos = w.spent_cost_nanos + c.cost,
		spent_requests = w.spent_requests + c.requests,
		spent_tokens = w.spent_tokens + c.tokens
	from (
		select c.id, sum(sign * e.counted_cost_nanos) as cost, sum(sign * e.counted_requests) as requests,
			sum(sign * e.counted_tokens) as tokens
		from (select 1 as sign, a.* from unnest(arrived) a union all select -1, g.* from unnest(gone) g) e,
			ai_windows_of(e.organization_id, e.application_id, e.authenticated_user_id, e.key_owner is not distinct from 'operator', e.started_at) c
		group by c.id
	) c where c.id = w.id;

	insert into ai_usage_sums as s (organization_id, span, at, application_id, user_id, model, provider, is_by_operator, requests,
		successes, errors, cancelled, input_tokens, output_tokens, latency_ms, provider_cost_nanos, billable_cost_nanos, counted_requests, counted_tokens,
		counted_cost_nanos)
	select e.organization_id, span, date_trunc(span, e.started_at, 'UTC'), e.application_id, e.authenticated_user_id,
		coalesce(e.model_served, 'unknown'), coalesce(e.provider, 'unknown'), e.key_owner is not distinct from 'operator', sum(sign),
		coalesce(sum(sign) filter (where e.status = 'success'), 0), coalesce(sum(sign) filter (where e.status = 'error'), 0),
		coalesce(sum(sign) filter (where e.status = 'cancelled'), 0),
		sum(sign * (e.input_tokens + e.cache_read_tokens + e.cache_write_tokens + e.input_audio_tokens)),
		sum(sign * (e.output_tokens + e.reasoning_tokens + e.output_audio_tokens)),
		sum(sign * e.latency_ms), sum(sign * e.provider_cost_nanos), sum(sign * e.billable_cost_nanos),
		sum(sign * e.counted_requests), sum(sign * e.counted_tokens), sum(sign * e.counted_cost_nanos)
	from (select 1 as sign, a.* from unnest(arrived) a union all select -1, g.* from unnest(gone) g) e,
		(values ('hour'), ('day')) as spans (span)
	group by 1, 2, 3, 4, 5, 6, 7, 8 order by 1, 2, 3, 4, 5, 6, 7, 8
	on conflict on constraint ai_usage_sums_key do update set
		requests = s.requests + excluded.requests,
		successes = s.successes + excluded.successes,
		errors = s.errors + excluded.errors,
		cancelled = s.cancelled + excluded.cancelled,
		input_tokens = s.input_tokens + excluded.input_tokens,
		output_tokens = s.output_tokens + excluded.output_tokens,
		latency_ms = s.latency_ms + excluded.latency_ms,
		provider_cost_nanos = s.provider_cost_nanos + excluded.provider_cost_nanos,
		billable_cost_nanos = s.billable_cost_nanos + excluded.billable_cost_nanos,
		counted_requests = s.counted_requests + excluded.counted_requests,
		counted_tokens = s.counted_tokens + excluded.counted_tokens,
		counted_cost_nanos = s.counted_cost_nanos + excluded.counted_cost_nanos;
end $function$;

CREATE OR REPLACE FUNCTION public.count_applications()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
END $function$;

CREATE OR REPLACE FUNCTION public.count_arrived_ai_usage()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
	perform count_ai_usage(array(select row(a.*)::ai_usage_events from arrived a), '{}');
	return null;
end $function$;

CREATE OR REPLACE FUNCTION public.count_changed_ai_usage()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
	perform count_ai_usage(
		array(select row(a.*)::ai_usage_events from arrived a), array(select row(g.*)::ai_usage_events from gone g));
	return null;
end $function$;

CREATE OR REPLACE FUNCTION public.count_deployments()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION public.count_image_variants_in()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO image_totals (organization_id, bytes)
    SELECT organization_id, sum(bytes) FROM after GROUP BY organization_id ORDER BY organization_id
    ON CONFLICT (organization_id) DO UPDATE SET bytes = image_totals.bytes + excluded.bytes;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION public.count_image_variants_out()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  UPDATE image_totals t SET bytes = t.bytes - gone.bytes
    FROM (SELECT organization_id, sum(bytes) AS bytes FROM before GROUP BY organization_id ORDER BY organization_id) gone
    WHERE t.organization_id = gone.organization_id;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION public.count_memberships()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
END $function$;

CREATE OR REPLACE FUNCTION public.lock_ai_windows(calls json)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
	perform pg_advisory_xact_lock_shared(7150114, lock)
		from (
			select distinct ai_usage_lock(c.organization_id) as lock from json_to_recordset(calls) as c(organization_id uuid) order by 1
		) locks;
	perform w.id from ai_budget_windows w
		where w.id in (
			select v.id
			from json_to_recordset(calls) as c(organization_id uuid, application_id uuid, user_id text, is_by_operator boolean, started_at timestamptz),
				ai_windows_of(c.organization_id, c.application_id, c.user_id, c.is_by_operator, c.started_at) v)
		order by w.id for no key update;
end $function$;

CREATE OR REPLACE FUNCTION public.note_blob_candidates()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO blob_candidates (blob_id) SELECT DISTINCT blob_id FROM unlinked ORDER BY blob_id ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION public.note_encoding_candidates()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  INSERT INTO blob_candidates (blob_id) SELECT DISTINCT blob_id FROM unlinked WHERE blob_id IS NOT NULL ORDER BY blob_id
    ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION public.notify_build_log()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  IF TG_TABLE_NAME = 'build_logs' THEN
    PERFORM pg_notify('build_logs', deployment_id::text) FROM (SELECT DISTINCT deployment_id FROM written) w;
  ELSE
    PERFORM pg_notify('build_logs', NEW.id::text);
  END IF;
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION public.notify_edge_hostnames()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
  PERFORM pg_notify('edge_hostnames', coalesce(NEW.application_id, OLD.application_id)::text);
  RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION public.release_ai_holds(calls json, ids uuid[])
 RETURNS SETOF jsonb
 LANGUAGE plpgsql
AS $function$
begin
	perform lock_ai_windows(calls);
	return query
		with gone as (delete from ai_holds h where h.id = any(ids) returning *),
		released as (
			update ai_budget_windows w set held_cost_nanos = w.held_cost_nanos - d.cost, held_requests = w.held_requests - d.requests,
				held_tokens = w.held_tokens - d.tokens
			from (
				select v.id, sum(g.cost_nanos) as cost, count(*) as requests, sum(g.tokens) as tokens
				from gone g, ai_windows_of(g.organization_id, g.application_id, g.user_id, g.is_by_operator, g.started_at) v
				group by v.id
			) d where d.id = w.id
		)
		select event from gone;
end $function$;

CREATE TRIGGER ai_usage_arrived AFTER INSERT ON public.ai_usage_events REFERENCING NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION count_arrived_ai_usage();

CREATE TRIGGER ai_usage_changed AFTER UPDATE ON public.ai_usage_events REFERENCING OLD TABLE AS gone NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION count_changed_ai_usage();

CREATE TRIGGER applications_counted_in AFTER INSERT ON public.applications REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_applications();

CREATE TRIGGER applications_counted_out AFTER DELETE ON public.applications REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_applications();

CREATE TRIGGER artifact_encodings_unlinked AFTER DELETE ON public.artifact_encodings REFERENCING OLD TABLE AS unlinked FOR EACH STATEMENT EXECUTE FUNCTION note_encoding_candidates();

CREATE TRIGGER artifacts_unlinked AFTER DELETE ON public.artifacts REFERENCING OLD TABLE AS unlinked FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();

CREATE TRIGGER build_logs_notify AFTER INSERT ON public.build_logs REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION notify_build_log();

CREATE TRIGGER deployments_counted_in AFTER INSERT ON public.deployments REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION count_deployments();

CREATE TRIGGER deployments_counted_out AFTER DELETE ON public.deployments REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION count_deployments();

CREATE TRIGGER deployments_notify AFTER UPDATE ON public.deployments FOR EACH ROW WHEN (((old.status <> new.status) OR (old.retired_at IS DISTINCT FROM new.retired_at))) EXECUTE FUNCTION notify_edge_hostnames();

CREATE TRIGGER deployments_notify_followers AFTER UPDATE OF status ON public.deployments FOR EACH ROW WHEN ((old.status <> new.status)) EXECUTE FUNCTION notify_build_log();

CREATE TRIGGER deployments_recounted AFTER UPDATE ON public.deployments REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION count_deployments();

CREATE TRIGGER environments_notify AFTER UPDATE OF current_deployment_id ON public.environments FOR EACH ROW WHEN ((old.current_deployment_id IS DISTINCT FROM new.current_deployment_id)) EXECUTE FUNCTION notify_edge_hostnames();

CREATE TRIGGER hostnames_notify AFTER INSERT OR DELETE OR UPDATE ON public.hostnames FOR EACH ROW EXECUTE FUNCTION notify_edge_hostnames();

CREATE TRIGGER image_variants_counted_in AFTER INSERT ON public.image_variants REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION count_image_variants_in();

CREATE TRIGGER image_variants_counted_out AFTER DELETE ON public.image_variants REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION count_image_variants_out();

CREATE TRIGGER image_variants_unlinked AFTER DELETE ON public.image_variants REFERENCING OLD TABLE AS unlinked FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();

CREATE TRIGGER isr_pages_unlinked AFTER DELETE ON public.isr_pages REFERENCING OLD TABLE AS unlinked FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();

CREATE TRIGGER members_counted_in AFTER INSERT ON public.organization_members REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_memberships();

CREATE TRIGGER members_counted_out AFTER DELETE ON public.organization_members REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_memberships();

CREATE TRIGGER object_blobs_unlinked AFTER DELETE ON public.object_blobs REFERENCING OLD TABLE AS unlinked FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();

CREATE TRIGGER upload_blobs_unlinked AFTER DELETE ON public.upload_blobs REFERENCING OLD TABLE AS unlinked FOR EACH STATEMENT EXECUTE FUNCTION note_blob_candidates();
