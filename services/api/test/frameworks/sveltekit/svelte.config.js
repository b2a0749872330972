import adapter from '@sveltejs/adapter-vercel'

/** @type {import('@sveltejs/kit').Config} */
export default { kit: { adapter: adapter({ runtime: 'nodejs24.x' }) } }
