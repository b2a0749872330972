const NAME = /^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$/

/**
 * True for 3 to 63 lower-case letters, digits and hyphens that begin and end with a letter or digit (S3 "Bucket naming rules").
 * Dots are not allowed: a bucket must be one label of a host name, so that one wildcard certificate covers it.
 */
export const isBucketName = (text: string): boolean => NAME.test(text)
