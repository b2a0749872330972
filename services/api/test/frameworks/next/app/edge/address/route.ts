export const runtime = 'edge'

export { GET } from '../../api/address/route'
