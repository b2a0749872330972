import { type Failure, PlatformError } from '../errors.ts'
import type { Sender } from '../sender.ts'
import { readAnswer } from '../read-answer.ts'
import type { Repetition } from '../repetition.ts'

/** The parameters that nobody else may learn. */
const SECRETS = ['code', 'code_verifier', 'device_code', 'refresh_token', 'token']

/**
 * Posts a form to an endpoint of an identity provider. Throws PlatformError, which repeats no secret of the form even if the answer
 * does, and the signal's reason.
 */
export async function sendForm<T>(
  platform: Sender,
  url: string,
  form: URLSearchParams,
  repetition: Repetition,
  signal?: AbortSignal,
  read: (answer: Response) => Promise<T> = readAnswer as typeof read,
): Promise<T> {
  const { pathname: path } = new URL(url)
  try {
    return await platform.send({ method: 'POST', path, url, body: form, repetition, isPublic: true }, { signal }, read)
  } catch (error) {
    if (!(error instanceof PlatformError)) throw error
    const known: Failure = error
    let shown = JSON.stringify({ ...known, message: error.message })
    for (const name of SECRETS) shown = shown.replaceAll(form.get(name) ?? '\0', '…')
    const { message, ...failure } = JSON.parse(shown) as Failure & { message: string }
    throw new PlatformError(message, failure)
  }
}
