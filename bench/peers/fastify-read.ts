import jwt from '@fastify/jwt'
import rateLimit from '@fastify/rate-limit'
import { and, eq } from 'drizzle-orm'
import { pgTable, text, timestamp, uuid } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/postgres-js'
import fastify from 'fastify'
import { Redis } from 'ioredis'
import { readSettings } from './settings.ts'

// GET /organizations/{id} as the documentation of each part shows it: the plugins' own options, a response schema, and
// a query built where it is used.

const { databaseUrl, redisUrl, port, issuer, audience, publicKey } = readSettings('issuer', 'audience', 'publicKey')

const organizations = pgTable('organizations', {
  id: uuid().primaryKey(),
  name: text().notNull(),
  slug: text().notNull(),
  imageUrl: text('image_url'),
  createdAt: timestamp('created_at', { withTimezone: true, precision: 3 }).notNull(),
  updatedAt: timestamp('updated_at', { withTimezone: true, precision: 3 }).notNull(),
})
const members = pgTable('organization_members', {
  organizationId: uuid('organization_id').notNull(),
  userId: text('user_id').notNull(),
})
const db = drizzle(databaseUrl)

const app = fastify({ trustProxy: '127.0.0.1' })
await app.register(rateLimit, {
  max: 6_000,
  timeWindow: '1 minute',
  redis: new Redis(redisUrl),
  nameSpace: 'bench:fastify-read:',
})
await app.register(jwt, {
  secret: { public: publicKey },
  verify: { algorithms: ['RS256'], allowedIss: issuer, allowedAud: audience },
})

app.get<{ Params: { id: string } }>(
  '/organizations/:id',
  {
    schema: {
      params: { type: 'object', properties: { id: { type: 'string', format: 'uuid' } } },
      response: {
        200: {
          type: 'object',
          properties: {
            id: { type: 'string' },
            name: { type: 'string' },
            slug: { type: 'string' },
            imageUrl: { type: 'string', nullable: true },
            createdAt: { type: 'string', format: 'date-time' },
            updatedAt: { type: 'string', format: 'date-time' },
          },
        },
      },
    },
  },
  async (request, reply) => {
    const token = await request.jwtVerify<{ sub: string; scope: string }>()
    const scopes = token.scope.split(' ')
    if (!scopes.includes('platform:organizations:read') && !scopes.includes('platform:organizations:write'))
      return reply.code(403).send({ message: 'The token lacks a scope' })
    const [row] = await db
      .select({
        id: organizations.id,
        name: organizations.name,
        slug: organizations.slug,
        imageUrl: organizations.imageUrl,
        createdAt: organizations.createdAt,
        updatedAt: organizations.updatedAt,
      })
      .from(organizations)
      .innerJoin(members, and(eq(members.organizationId, organizations.id), eq(members.userId, token.sub)))
      .where(eq(organizations.id, request.params.id))
    return row ?? reply.code(404).send({ message: 'Not found' })
  },
)

await app.listen({ port, host: '127.0.0.1' })
