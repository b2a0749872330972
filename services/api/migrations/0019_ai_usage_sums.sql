-- Apart from 0018: whoever waits for this table holds none of those that organizations refer to.
ALTER TABLE "ai_usage_events" ADD COLUMN "key_owner" text;--> statement-breakpoint
ALTER TABLE "ai_usage_events" ADD COLUMN "counted_requests" smallint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "ai_usage_events" ADD COLUMN "counted_tokens" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "ai_usage_events" ADD COLUMN "counted_cost_nanos" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX "ai_usage_events_of_user" ON "ai_usage_events" USING btree ("organization_id","authenticated_user_id","id") WHERE "ai_usage_events"."authenticated_user_id" is not null;--> statement-breakpoint
CREATE INDEX "ai_usage_events_of_end_user" ON "ai_usage_events" USING btree ("organization_id","caller_end_user_id","id") WHERE "ai_usage_events"."caller_end_user_id" is not null;--> statement-breakpoint
ALTER TABLE "ai_usage_events" ADD CONSTRAINT "ai_usage_events_key_owner" CHECK ("key_owner" in ('operator', 'organization', 'local'));--> statement-breakpoint
ALTER TABLE "ai_usage_events" ADD CONSTRAINT "ai_usage_events_counted" CHECK (least("counted_requests", "counted_tokens", "counted_cost_nanos") >= 0);
--> statement-breakpoint
-- What earlier releases stored. Nobody else writes meanwhile: the columns above were added under an exclusive lock.
UPDATE "ai_usage_events" SET
	"key_owner" = CASE WHEN "billable_cost_nanos" > 0 THEN 'operator' WHEN "provider" = 'local' THEN 'local' ELSE 'organization' END,
	"counted_requests" = CASE WHEN "status" = 'pending' THEN 0 ELSE 1 END,
	"counted_tokens" = "input_tokens" + "cache_read_tokens" + "cache_write_tokens" + "input_audio_tokens" + "output_tokens" + "reasoning_tokens" + "output_audio_tokens",
	"counted_cost_nanos" = "provider_cost_nanos"
WHERE "provider" IS NOT NULL AND "provider_attempts" <> '[]';--> statement-breakpoint
-- Which of a few locks an organization's usage is counted under.
CREATE FUNCTION ai_usage_lock(organization_id uuid) RETURNS integer
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$ select hashtext(organization_id::text) & 63 $$;--> statement-breakpoint
-- The budget windows that usage counts in: those of its organization, application and user, in the day and the month it began.
CREATE FUNCTION ai_windows_of(organization_id uuid, application_id uuid, user_id text, is_by_operator boolean, started_at timestamptz)
	RETURNS SETOF ai_budget_windows LANGUAGE sql STABLE AS $$
	select w.* from ai_budget_windows w
	where w.organization_id = $1
		and (w.starts_at, w.period) in (
			(date_trunc('day', $5, 'UTC'), 'day'), (date_trunc('month', $5, 'UTC'), 'month'))
		and (w.application_id is null or w.application_id = $2)
		and (w.user_id is null or w.user_id = $3)
		and (not w.is_allowance or $4)
$$;--> statement-breakpoint
-- Locks the windows that calls count in, in the order of all, until the transaction ends; none of their organizations is made meanwhile.
-- calls: objects with organization_id, application_id, user_id, is_by_operator and started_at.
CREATE FUNCTION lock_ai_windows(calls json) RETURNS void LANGUAGE plpgsql AS $$
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
end $$;--> statement-breakpoint
-- Admits calls one after the other and holds what those that fit may use. calls: holds, with their place n, from 1, and allowance_nanos;
-- an amount that is null is not known. Returns for each what became of it: admitted, refused (with the maxima that it would exceed),
-- unopened (a window that it needs is missing) or unbounded (a maximum counts what is not known of it: cost or tokens).
CREATE FUNCTION admit_ai_calls(calls json) RETURNS TABLE (n integer, outcome text, details json) LANGUAGE plpgsql AS $$
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
end $$;--> statement-breakpoint
-- Gives back what calls hold, as far as they still do. Returns the usage events of those, as if each had cost all of it. calls: as in
-- lock_ai_windows, of everything that the transaction is going to count.
CREATE FUNCTION release_ai_holds(calls json, ids uuid[]) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
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
end $$;--> statement-breakpoint
-- Adds what events are and takes away what they were, in sums and in budget windows. All take locks in one order: the advisory ones,
-- windows by id, sums by key.
CREATE FUNCTION count_ai_usage(arrived ai_usage_events[], gone ai_usage_events[]) RETURNS void LANGUAGE plpgsql AS $$
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
end $$;--> statement-breakpoint
CREATE FUNCTION count_arrived_ai_usage() RETURNS trigger LANGUAGE plpgsql AS $$
begin
	perform count_ai_usage(array(select row(a.*)::ai_usage_events from arrived a), '{}');
	return null;
end $$;--> statement-breakpoint
CREATE FUNCTION count_changed_ai_usage() RETURNS trigger LANGUAGE plpgsql AS $$
begin
	perform count_ai_usage(
		array(select row(a.*)::ai_usage_events from arrived a), array(select row(g.*)::ai_usage_events from gone g));
	return null;
end $$;--> statement-breakpoint
CREATE TRIGGER ai_usage_arrived AFTER INSERT ON ai_usage_events
	REFERENCING NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION count_arrived_ai_usage();--> statement-breakpoint
CREATE TRIGGER ai_usage_changed AFTER UPDATE ON ai_usage_events
	REFERENCING OLD TABLE AS gone NEW TABLE AS arrived FOR EACH STATEMENT EXECUTE FUNCTION count_changed_ai_usage();--> statement-breakpoint
-- The sums of what is there already.
SELECT count_ai_usage(array_agg(e), '{}') FROM (SELECT e, row_number() OVER () / 10000 AS batch FROM ai_usage_events e) e GROUP BY batch;
