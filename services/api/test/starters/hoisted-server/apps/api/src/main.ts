import { greet } from '@acme/greeting'
import { fastify } from 'fastify'

const app = fastify()
app.get('/', () => ({ greeting: greet('api') }))
app.get<{ Params: { name: string } }>('/greet/:name', (request) => ({ greeting: greet(request.params.name) }))
await app.listen({ host: '0.0.0.0', port: Number(process.env.PORT ?? 3000) })
