export default defineEventHandler((event) => ({ greeting: `Hello ${getRouterParam(event, 'name')}` }))
