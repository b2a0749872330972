import vercel from '@astrojs/vercel'
import { defineConfig, envField } from 'astro/config'

export default defineConfig({
  output: 'server',
  adapter: vercel({
    isr: { expiration: 2, exclude: [/^\/live\//, '/_image', /^\/_actions\//, /^\/_server-islands\//] },
    maxDuration: 30,
  }),
  env: { schema: { SERVER_SECRET: envField.string({ context: 'server', access: 'secret', optional: true }) } },
  redirects: { '/old': '/about', '/old/[id]': { status: 302, destination: '/posts/[id]' } },
})
