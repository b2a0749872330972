import { defineNitroConfig } from 'nitro/config'

export default defineNitroConfig({
  serverDir: './',
  preset: 'vercel',
  compatibilityDate: '2026-01-01',
  errorHandler: './error.ts',
  routeRules: {
    '/kept': { isr: 2 },
    '/kept/query': { isr: { expiration: 2, allowQuery: ['q'] } },
    '/kept/forever': { isr: true },
    '/swr': { swr: 2 },
    '/prerendered': { prerender: true },
    '/old': { redirect: '/prerendered' },
    '/ruled/**': { headers: { 'x-rule': 'yes' } },
  },
})
