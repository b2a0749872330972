import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'

/** A message as it arrived: the envelope's recipients, and header with body. */
interface Message {
  to: readonly string[]
  message: string
}

/** An SMTP server that keeps what it gets. */
export interface MailServer {
  /** For MAIL_URL. */
  url: string
  /** All that arrived, oldest first. */
  messages: readonly Message[]
  /** The text of the next letter to an address that was not taken yet; waits for it. */
  nextLetter: (to: string) => Promise<string>
  close: () => Promise<void>
}

/** The text of a message, whichever way it was encoded. */
export function textOf(message: string): string {
  const body = message.slice(message.indexOf('\r\n\r\n') + 4)
  if (!/^content-transfer-encoding: quoted-printable/im.test(message)) return body
  const bytes = body.replaceAll(/=\r\n/g, '').replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => `%${hex}`)
  return decodeURIComponent(bytes)
}

/** Starts the server on a free port of the loopback. options: of smtp-server, such as what it refuses. */
export async function startMailServer(options: ConstructorParameters<typeof SMTPServer>[0] = {}): Promise<MailServer> {
  const messages: Message[] = []
  const taken = new Set<Message>()
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => void chunks.push(chunk))
      stream.on('end', () => {
        const to = session.envelope.rcptTo.map(({ address }) => address)
        messages.push({ to, message: Buffer.concat(chunks).toString() })
        server.emit('message')
        done()
      })
    },
    ...options,
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`,
    messages,
    async nextLetter(to) {
      for (;;) {
        const next = messages.find((message) => message.to.includes(to) && !taken.has(message))
        if (next) {
          taken.add(next)
          return textOf(next.message)
        }
        await once(server, 'message')
      }
    },
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}
