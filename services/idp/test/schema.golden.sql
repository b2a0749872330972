create table attempts (
  blocked_until timestamp(3) with time zone not null,
  count integer not null,
  key text not null,
  since timestamp(3) with time zone not null,
  updated_at timestamp(3) with time zone not null,
  constraint attempts_pkey PRIMARY KEY (key)
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

create table authenticators (
  ciphertext bytea not null,
  created_at timestamp(3) with time zone not null,
  kek_id text not null,
  last_step integer not null,
  user_id uuid not null,
  constraint authenticators_pkey PRIMARY KEY (user_id),
  constraint authenticators_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table authorization_codes (
  address text,
  amr text not null,
  auth_time timestamp(3) with time zone not null,
  client_id uuid not null,
  code_challenge text,
  code_hash bytea not null,
  consumed_at timestamp(3) with time zone,
  expires_at timestamp(3) with time zone not null,
  family_id uuid,
  nonce text,
  redirect_uri text not null,
  scope text not null,
  sid uuid not null,
  user_agent text,
  user_id uuid not null,
  constraint authorization_codes_client_id_clients_id_fk FOREIGN KEY (client_id) REFERENCES clients(id) ON DELETE CASCADE,
  constraint authorization_codes_pkey PRIMARY KEY (code_hash),
  constraint authorization_codes_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table client_secrets (
  client_id uuid not null,
  created_at timestamp(3) with time zone not null,
  expires_at timestamp(3) with time zone,
  id uuid not null,
  secret_hash bytea not null,
  constraint client_secrets_client_id_clients_id_fk FOREIGN KEY (client_id) REFERENCES clients(id) ON DELETE CASCADE,
  constraint client_secrets_pkey PRIMARY KEY (id)
);

create table clients (
  created_at timestamp(3) with time zone not null,
  disabled_at timestamp(3) with time zone,
  grants text[] not null,
  id uuid not null,
  is_first_party boolean not null,
  kind text not null,
  name text not null,
  policy_domains text[] not null default '{}'::text[],
  policy_user_ids uuid[] not null default '{}'::uuid[],
  post_logout_redirect_uris text[] not null,
  redirect_uris text[] not null,
  requester text,
  required_product text,
  requires_second_factor boolean not null default false,
  scopes text[],
  updated_at timestamp(3) with time zone not null,
  constraint clients_pkey PRIMARY KEY (id)
);

create table consents (
  client_id uuid not null,
  created_at timestamp(3) with time zone not null,
  scopes text[] not null,
  updated_at timestamp(3) with time zone not null,
  user_id uuid not null,
  constraint consents_client_id_clients_id_fk FOREIGN KEY (client_id) REFERENCES clients(id) ON DELETE CASCADE,
  constraint consents_user_id_client_id_pk PRIMARY KEY (user_id, client_id),
  constraint consents_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table device_authorizations (
  address text not null,
  amr text,
  auth_time timestamp(3) with time zone,
  client_id uuid not null,
  consumed_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone not null,
  decision text,
  device_code_hash bytea not null,
  expires_at timestamp(3) with time zone not null,
  family_id uuid,
  interval_seconds integer not null,
  is_client_proven boolean not null default true,
  polled_at timestamp(3) with time zone,
  scope text not null,
  sid uuid,
  user_agent text,
  user_code text not null,
  user_id uuid,
  constraint device_authorizations_client_id_clients_id_fk FOREIGN KEY (client_id) REFERENCES clients(id) ON DELETE CASCADE,
  constraint device_authorizations_pkey PRIMARY KEY (device_code_hash),
  constraint device_authorizations_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table one_time_links (
  created_at timestamp(3) with time zone not null,
  expires_at timestamp(3) with time zone not null,
  mailed_to text,
  purpose text not null,
  token_hash bytea not null,
  user_id uuid not null,
  constraint one_time_links_pkey PRIMARY KEY (token_hash),
  constraint one_time_links_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table passkeys (
  counter bigint not null,
  created_at timestamp(3) with time zone not null,
  credential_id bytea not null,
  id uuid not null,
  is_synced boolean not null,
  last_used_at timestamp(3) with time zone,
  name text not null,
  public_key bytea not null,
  transports text[] not null,
  user_id uuid not null,
  constraint passkeys_pkey PRIMARY KEY (id),
  constraint passkeys_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table product_withdrawals (
  product text not null,
  user_id uuid not null,
  withdrawn_at timestamp(3) with time zone not null,
  constraint product_withdrawals_user_id_product_pk PRIMARY KEY (user_id, product),
  constraint product_withdrawals_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table recovery_codes (
  code_hash bytea not null,
  created_at timestamp(3) with time zone not null,
  user_id uuid not null,
  constraint recovery_codes_pkey PRIMARY KEY (code_hash),
  constraint recovery_codes_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table refresh_families (
  address text,
  amr text not null,
  auth_time timestamp(3) with time zone not null,
  client_id uuid not null,
  created_at timestamp(3) with time zone not null,
  expires_at timestamp(3) with time zone not null,
  generation integer not null,
  id uuid not null,
  revoked_at timestamp(3) with time zone,
  rotated_at timestamp(3) with time zone,
  rotated_before_at timestamp(3) with time zone,
  scope text not null,
  sid uuid not null,
  user_agent text,
  user_id uuid not null,
  constraint refresh_families_client_id_clients_id_fk FOREIGN KEY (client_id) REFERENCES clients(id) ON DELETE CASCADE,
  constraint refresh_families_pkey PRIMARY KEY (id),
  constraint refresh_families_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table refresh_keys (
  activates_at timestamp(3) with time zone not null,
  ciphertext bytea not null,
  id text not null,
  kek_id text not null,
  retires_at timestamp(3) with time zone,
  constraint refresh_keys_activates_at UNIQUE (activates_at),
  constraint refresh_keys_pkey PRIMARY KEY (id)
);

create table sessions (
  address text,
  amr text not null,
  answer text,
  answered_request bytea,
  auth_time timestamp(3) with time zone not null,
  cookie_hash bytea not null,
  created_at timestamp(3) with time zone not null,
  expires_at timestamp(3) with time zone not null,
  id uuid not null,
  last_seen_at timestamp(3) with time zone not null,
  stays_signed_in boolean not null default true,
  user_agent text,
  user_id uuid not null,
  constraint sessions_pkey PRIMARY KEY (id),
  constraint sessions_user_id_users_id_fk FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table sign_ups (
  browser_hash bytea not null,
  code_hash bytea not null,
  email text not null,
  expires_at timestamp(3) with time zone not null,
  guesses integer not null,
  proven_at timestamp(3) with time zone,
  return_to text not null,
  constraint sign_ups_pkey PRIMARY KEY (browser_hash)
);

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

create table used_challenges (
  challenge_hash bytea not null,
  expires_at timestamp(3) with time zone not null,
  constraint used_challenges_pkey PRIMARY KEY (challenge_hash)
);

create table users (
  created_at timestamp(3) with time zone not null,
  email text not null,
  email_verified boolean not null,
  family_name text,
  given_name text,
  id uuid not null,
  joined jsonb,
  locale text,
  password_hash text,
  picture text,
  preferred_username text,
  suspended_at timestamp(3) with time zone,
  updated_at timestamp(3) with time zone not null,
  zoneinfo text,
  constraint users_pkey PRIMARY KEY (id)
);

CREATE INDEX attempts_by_update ON public.attempts USING btree (updated_at);

CREATE INDEX audit_events_by_subject ON public.audit_events USING btree (subject);

CREATE INDEX authorization_codes_by_client ON public.authorization_codes USING btree (client_id);

CREATE INDEX authorization_codes_by_expiry ON public.authorization_codes USING btree (expires_at);

CREATE INDEX authorization_codes_by_user ON public.authorization_codes USING btree (user_id);

CREATE INDEX client_secrets_by_client ON public.client_secrets USING btree (client_id);

CREATE INDEX consents_by_client ON public.consents USING btree (client_id);

CREATE INDEX device_authorizations_by_client ON public.device_authorizations USING btree (client_id);

CREATE INDEX device_authorizations_by_expiry ON public.device_authorizations USING btree (expires_at);

CREATE INDEX device_authorizations_by_user ON public.device_authorizations USING btree (user_id);

CREATE UNIQUE INDEX device_authorizations_user_code ON public.device_authorizations USING btree (user_code);

CREATE INDEX one_time_links_by_expiry ON public.one_time_links USING btree (expires_at);

CREATE INDEX one_time_links_by_user ON public.one_time_links USING btree (user_id, purpose);

CREATE INDEX passkeys_by_user ON public.passkeys USING btree (user_id);

CREATE UNIQUE INDEX passkeys_credential ON public.passkeys USING btree (credential_id);

CREATE INDEX recovery_codes_by_user ON public.recovery_codes USING btree (user_id);

CREATE INDEX refresh_families_by_client ON public.refresh_families USING btree (client_id);

CREATE INDEX refresh_families_by_user ON public.refresh_families USING btree (user_id);

CREATE INDEX sessions_by_expiry ON public.sessions USING btree (expires_at);

CREATE INDEX sessions_by_user ON public.sessions USING btree (user_id);

CREATE UNIQUE INDEX sessions_cookie ON public.sessions USING btree (cookie_hash);

CREATE INDEX sign_ups_by_expiry ON public.sign_ups USING btree (expires_at);

CREATE UNIQUE INDEX signing_keys_activates_at ON public.signing_keys USING btree (activates_at);

CREATE INDEX signing_keys_retires_at ON public.signing_keys USING btree (retires_at);

CREATE INDEX used_challenges_by_expiry ON public.used_challenges USING btree (expires_at);

CREATE UNIQUE INDEX users_email ON public.users USING btree (lower(email));
