import { z } from '@hono/zod-openapi'
import { id, imageUrl, instant, name, shown } from '../../../http/fields.ts'

export const Organization = z
  .object({ id, name, slug: shown('acme'), imageUrl: imageUrl.nullable(), createdAt: instant, updatedAt: instant })
  .openapi('Organization')

/** What a member may do; a MEMBER least. */
export const role = z.enum(['OWNER', 'ADMIN', 'MEMBER'])
