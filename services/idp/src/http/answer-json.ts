/** An uncacheable JSON answer. Not by c.json, which builds two Headers; that costs more than the JSON. */
export const answerJson = (value: object): Response =>
  new Response(JSON.stringify(value), { headers: { 'content-type': 'application/json', 'cache-control': 'no-store' } })
