/*
 * The numbers of Postgres' advisory locks, for both services. A lock belongs to a database, and each service has its own.
 *
 * A number never changes: in a rolling update processes of the last release and of this one take turns by it. That is
 * also why REFRESH_KEYS_LOCK and REQUEST_LOG_DAYS_LOCK stay equal, which they are by accident: the one is taken in the
 * identity provider's database, the other in the API's. A new lock takes the next number that is free.
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
 * First of the two numbers of a lock under which the open streams of a resource are counted; the second is the hash of the
 * resource. Locks of two numbers never meet those of one.
 */
export const STREAM_SLOTS_LOCK_CLASS = 7_150_110

/**
 * First of the two numbers of a lock under which the builds of an organization that are under way are counted; the second is the
 * hash of the organization.
 */
export const CONCURRENT_BUILDS_LOCK_CLASS = 7_150_111

/**
 * First of the two numbers of a lock under which the requests of an application that somebody follows are numbered; the second
 * is the hash of its id.
 */
export const FOLLOWED_REQUESTS_LOCK_CLASS = 7_150_112

/**
 * First of the two numbers of a lock under which the lines of an application's Functions are numbered; the second is the hash of its
 * id.
 */
export const RUNTIME_LOGS_LOCK_CLASS = 7_150_113

/**
 * First of the two numbers of a lock that is shared by those who count AI usage and holds of an organization, and exclusive to who
 * makes one of its budget windows; the second is six bits of the hash of its id (migrations/0019 of the API names both).
 */
export const AI_USAGE_LOCK_CLASS = 7_150_114
