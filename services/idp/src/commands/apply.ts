import { readFile } from 'node:fs/promises'
import { type Command, requireWord, UsageError } from '@platform/service/cli'
import { z } from 'zod'
import type { Deps } from '../deps.ts'
import { ensureUser } from '../features/access/ensure-user.ts'
import { ensureClient } from '../features/clients/clients.ts'

const wanted = z.strictObject({
  users: z
    .array(
      z.strictObject({
        email: z.string(),
        givenName: z.string().optional(),
        familyName: z.string().optional(),
        password: z.string().optional(),
        emailVerified: z.boolean().optional(),
      }),
    )
    .default([]),
  clients: z
    .array(
      z.strictObject({
        id: z.string(),
        name: z.string(),
        requester: z.string().optional(),
        kind: z.enum(['public', 'confidential']),
        secret: z.string().optional(),
        redirectUris: z.array(z.string()).default([]),
        postLogoutRedirectUris: z.array(z.string()).default([]),
        grants: z.array(z.string()),
        scopes: z.union([z.literal('*'), z.array(z.string())]),
        isFirstParty: z.boolean().optional(),
        requiredProduct: z.string().nullable().optional(),
      }),
    )
    .default([]),
})

function parse(text: string): z.output<typeof wanted> {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw new UsageError('What is applied has to be JSON')
  }
  const read = wanted.safeParse(json)
  if (read.success) return read.data
  throw new UsageError(read.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '))
}

export const applyCommand: Command<Deps> = {
  name: 'apply',
  usage: 'apply -|FILE',
  summary: 'make the users and clients of a JSON document, or bring them into line; safe to repeat',
  async run(deps, args) {
    const source = requireWord(args, 0, 'a file, or - for stdin')
    const { users, clients } = parse(source === '-' ? await args.readStdin() : await readFile(source, 'utf8'))
    const appliedUsers = []
    for (const user of users) {
      const applied = await ensureUser(deps, user)
      appliedUsers.push({ id: applied.user.id, email: applied.user.email, isNew: applied.isNew })
    }
    const appliedClients = []
    for (const client of clients) {
      const { isNew, secret } = await ensureClient(deps, client)
      // The operator knows a given secret; a generated one is shown only here.
      appliedClients.push({ id: client.id, isNew, secret: client.secret === undefined ? (secret ?? null) : null })
    }
    const lines = [
      ...appliedUsers.map(({ id, email, isNew }) => `user    ${id}  ${isNew ? 'made' : 'kept'}  ${email}`),
      ...appliedClients.map(
        ({ id, isNew, secret }) => `client  ${id}  ${isNew ? 'made' : 'kept'}${secret === null ? '' : `  ${secret}`}`,
      ),
    ]
    return { json: { users: appliedUsers, clients: appliedClients }, text: lines.join('\n') }
  },
}
