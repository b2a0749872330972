import type { NextConfig } from 'next'

const config: NextConfig = {
  async redirects() {
    return [
      { source: '/old', destination: '/docs', permanent: true },
      { source: '/old/:section/:topic*', destination: '/docs/:section/:topic*', permanent: false },
      { source: '/beta', has: [{ type: 'cookie', key: 'beta' }], destination: '/docs/beta/start', permanent: false },
    ]
  },
  async rewrites() {
    return {
      beforeFiles: [{ source: '/before', destination: '/docs' }],
      afterFiles: [{ source: '/manual/:section', destination: '/docs/:section' }],
      fallback: [{ source: '/fallback/:path*', destination: '/api/echo?path=:path*' }],
    }
  },
  async headers() {
    return [{ source: '/docs/:path*', headers: [{ key: 'x-config', value: 'docs' }] }]
  },
}

export default config
