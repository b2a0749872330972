import { client } from '../identity-provider.ts'
import { type PacedOrder, sendPacedLoad } from '../send-paced-load.ts'
import type { Suite, Trial } from '../suite.ts'

const TOKENS_PER_SECOND = 100
const WRONG_PASSWORDS_PER_SECOND = 200
const SESSIONS = 256
const SCOPES = ['openid', 'offline_access']
const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

/**
 * What a flood of wrong passwords does to those who are signed in. Each comes from another address and is for another
 * account, so no back-off spares the hash; what finds the queue full is answered 503.
 */
export const passwordFlood: Suite = {
  name: 'password-flood',
  work: `${TOKENS_PER_SECOND} rotations a second, beside ${WRONG_PASSWORDS_PER_SECOND} wrong passwords a second and without`,
  async prepare(lab) {
    const idp = await lab.identityProvider('any')

    /** The form of the sign-in page, with its cookie: an attacker opens it once. */
    async function openSignIn(): Promise<PacedOrder> {
      const page = await fetch(`${idp.issuer}/sign-in`)
      const csrf = /name="csrf" value="([^"]+)"/.exec(await page.text())?.[1] ?? ''
      const cookie = page.headers.getSetCookie()[0]?.split(';', 1)[0] ?? ''
      const form = { csrf, returnTo: `${idp.issuer}/`, email: 'RANDOM@example.com', password: 'not the password' }
      return {
        url: `${idp.origin}/sign-in`,
        headers: { ...FORM, cookie, origin: idp.issuer },
        forms: Array<string>(1_000).fill(new URLSearchParams(form).toString()),
        perSecond: WRONG_PASSWORDS_PER_SECOND,
      }
    }
    async function rotations(): Promise<PacedOrder> {
      const forms: string[] = []
      for (let n = 0; n < SESSIONS; n++) {
        const { refresh_token = '' } = await idp.newTokens(SCOPES)
        const form = { grant_type: 'refresh_token', client_id: client.id, refresh_token }
        forms.push(new URLSearchParams(form).toString())
      }
      return { url: `${idp.origin}/oauth2/token`, headers: FORM, forms, perSecond: TOKENS_PER_SECOND }
    }
    const trial = (name: string, isFlooded: boolean): Trial => ({
      name,
      pid: idp.pid,
      async measure(seconds) {
        const loads = [await rotations(), ...(isFlooded ? [await openSignIn()] : [])]
        const [tokens, passwords] = await sendPacedLoad(loads, seconds, lab.env)
        if (!tokens || Object.keys(tokens.statuses).join() !== '200')
          throw new Error(`The token endpoint answered ${JSON.stringify(tokens?.statuses)}`)
        const refused = Object.keys(passwords?.statuses ?? {}).filter((status) => !['401', '503'].includes(status))
        if (refused.length > 0) throw new Error(`A wrong password was answered ${refused.join()}`)
        return tokens
      },
    })
    return { ours: trial('flooded', true), peers: [{ ...trial('quiet', false), aim: {} }] }
  },
}
