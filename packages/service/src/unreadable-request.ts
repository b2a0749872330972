/** The media type of JSON answers, as Hono spells it. */
const type = 'application/json; charset=UTF-8'

/** The answers to requests that are not valid HTTP. error: the document in the service's own shape. */
export function unreadableRequest(error: object) {
  const body = JSON.stringify(error)
  return {
    type,
    body,
    /** For requests without a URL, such as `OPTIONS *` or one without a host: the errorHandler of @hono/node-server. */
    errorHandler: () => new Response(body, { status: 400, headers: { 'content-type': type } }),
    /** For bytes that Node cannot parse: the refusal of `listen`. */
    refusal: () => ({ type, body }),
  }
}
