/*
 * The numbers of Postgres' advisory locks, for both services. A lock belongs to a database, and each service has its own.
 *
 * A number never changes: during a rolling update, processes of the previous release and of this one exclude each other by it.
 * That is also why REFRESH_KEYS_LOCK and REQUEST_LOG_DAYS_LOCK stay equal, although only by accident: the first is taken in the
 * identity provider's database, the second in the API's. A new lock takes the next free number.
 */

/** Held by the process that migrates the database. */
export const MIGRATION_LOCK = 7_150_110_471

/** Held by the process that makes a signing key. */
export const SIGNING_KEYS_LOCK = 7_150_110_472

/** Held by the identity provider's process that makes a key for refresh tokens. */
export const REFRESH_KEYS_LOCK = 7_150_110_473

/** Held by the API's process that makes or drops a partition of its request log, its runtime log or its AI usage. */
export const REQUEST_LOG_DAYS_LOCK = 7_150_110_473

/** Held by the process that deletes a batch of expired rows. */
export const CLEAN_UP_LOCK = 7_150_110_474

/**
 * First of the two numbers of the lock for counting a resource's open streams; the second is the hash of the resource. Locks of
 * two numbers never conflict with those of one.
 */
export const STREAM_SLOTS_LOCK_CLASS = 7_150_110

/**
 * First of the two numbers of the lock for counting an organization's concurrent builds; the second is the hash of the
 * organization.
 */
export const CONCURRENT_BUILDS_LOCK_CLASS = 7_150_111

/**
 * First of the two numbers of the lock for numbering an application's requests while somebody follows them; the second is the
 * hash of its id.
 */
export const FOLLOWED_REQUESTS_LOCK_CLASS = 7_150_112

/**
 * First of the two numbers of the lock for numbering the log lines of an application's Functions; the second is the hash of its
 * id.
 */
export const RUNTIME_LOGS_LOCK_CLASS = 7_150_113

/**
 * First of the two numbers of a lock that processes share while they count an organization's AI usage and holds, and take
 * exclusively to create one of its budget windows; the second is six bits of the hash of its id (migrations/0019 of the API
 * names both).
 */
export const AI_USAGE_LOCK_CLASS = 7_150_114

/** First of the two numbers of the lock for counting the organizations that a user owns; the second is the hash of the user. */
export const OWNED_ORGANIZATIONS_LOCK_CLASS = 7_150_115

/** First of the two numbers of the lock for counting the invitations mailed to an address; the second is the hash of the address. */
export const INVITED_ADDRESS_LOCK_CLASS = 7_150_116
