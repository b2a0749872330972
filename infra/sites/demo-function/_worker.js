/** A token that acts as this deployment: exchanged for the credential that every Function has. */
async function signIn(env) {
  const answer = await fetch(`${env.PLATFORM_API_URL}/oauth2/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: env.PLATFORM_CLIENT_ID,
      client_secret: env.PLATFORM_CLIENT_SECRET,
    }),
  })
  if (!answer.ok) throw new Error(`The token was refused: ${answer.status}`)
  return (await answer.json()).access_token
}

/** Answers with the object of the bucket media that has the path as its key. */
export default {
  async fetch(request, env) {
    const key = new URL(request.url).pathname.slice(1)
    const authorization = `Bearer ${await signIn(env)}`
    const object = await fetch(`${env.PLATFORM_API_URL}/s3/media/${key}`, { headers: { authorization } })
    console.log(`media/${key} was answered with ${object.status}`)
    return new Response(object.body, { status: object.status, headers: { 'x-environment': env.PLATFORM_ENVIRONMENT } })
  },
}
