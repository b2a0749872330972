import { randomBytes, randomUUID } from 'node:crypto'
import { refreshFamilies } from '../src/features/refresh/table.ts'
import { sessions } from '../src/features/sessions/table.ts'
import type { TestIdp, TestPerson } from './start.ts'

const mozilla = (system: string, rest: string) => `Mozilla/5.0 (${system}) ${rest}`
const webkit = 'AppleWebKit/537.36 (KHTML, like Gecko)'

/** More kinds of browsers and programs than a list shows at once; one says 8 KB, one nothing. */
const userAgents: readonly (string | null)[] = [
  mozilla('X11; Linux x86_64; rv:140.0', 'Gecko/20100101 Firefox/140.0'),
  mozilla('Windows NT 10.0; Win64; x64', `${webkit} Chrome/139.0 Safari/537.36`),
  mozilla('Windows NT 10.0; Win64; x64', `${webkit} Chrome/139.0 Safari/537.36 Edg/139.0`),
  mozilla('Macintosh; Intel Mac OS X 10_15_7', `${webkit} Chrome/139.0 Safari/537.36`),
  mozilla(
    'iPhone; CPU iPhone OS 18_0 like Mac OS X',
    'AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1',
  ),
  mozilla('Linux; Android 15; Pixel 9', `${webkit} Chrome/139.0 Mobile Safari/537.36`),
  mozilla('Linux; Android 15; SM-S921B', `${webkit} SamsungBrowser/28.0 Chrome/130.0 Mobile Safari/537.36`),
  mozilla('X11; CrOS x86_64 14541.0.0', `${webkit} Chrome/139.0 Safari/537.36`),
  'curl/8.5.0',
  'node',
  'python-requests/2.32.3',
  'Go-http-client/2.0',
  '<b>!</b> '.repeat(900),
  null,
]

/** The hour `i` hours ago and more: sessions and connections of different ages. */
const ago = (idp: TestIdp, i: number): Date => new Date(idp.now().getTime() - i * 3_600_000)

/** Adds sessions of many browsers to an account. */
export async function addSessions(idp: TestIdp, { userId }: TestPerson, count: number): Promise<void> {
  const expiresAt = new Date(idp.now().getTime() + 30 * 86_400_000)
  await idp.deps.db.insert(sessions).values(
    Array.from({ length: count }, (_, i) => ({
      id: randomUUID(),
      cookieHash: randomBytes(32),
      userId,
      authTime: ago(idp, i),
      amr: 'pwd',
      createdAt: ago(idp, i + 30),
      lastSeenAt: ago(idp, i),
      expiresAt,
      userAgent: userAgents[i % userAgents.length] ?? null,
      address: `198.51.100.${i % 250}`,
    })),
  )
}

/** Connects clients, each on as many machines, of which several look alike. */
export async function addConnections(
  idp: TestIdp,
  { userId }: TestPerson,
  clients: readonly { id: string }[],
  { each, scope }: { each: number; scope: string },
): Promise<void> {
  const expiresAt = new Date(idp.now().getTime() + 30 * 86_400_000)
  await idp.deps.db.insert(refreshFamilies).values(
    clients.flatMap(({ id: clientId }, n) =>
      Array.from({ length: each }, (_, i) => ({
        id: randomUUID(),
        clientId,
        userId,
        scope,
        authTime: ago(idp, i),
        amr: 'pwd',
        sid: randomUUID(),
        createdAt: ago(idp, i + n),
        userAgent: userAgents[(n + Math.floor(i / 3)) % userAgents.length] ?? null,
        address: `203.0.113.${n}`,
        generation: 1,
        expiresAt,
      })),
    ),
  )
}
