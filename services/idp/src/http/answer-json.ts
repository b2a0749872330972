/** An answer in JSON that nobody keeps. Not by c.json: it makes a Headers of the two, which costs more than the JSON. */
export const answerJson = (value: object): Response =>
  new Response(JSON.stringify(value), { headers: { 'content-type': 'application/json', 'cache-control': 'no-store' } })
