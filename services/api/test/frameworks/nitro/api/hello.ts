export default () => ({ hello: 'nitro', secret: process.env.SERVER_SECRET })
