import type { ImageRefusal, ImageRefusalCode } from '../images/image-refusal.ts'
import type { SitePage } from './site-page.ts'

/** The page for a refused image request, by code (D88). */
const pages: Readonly<Record<ImageRefusalCode, Pick<SitePage, 'status' | 'title' | 'headers'>>> = {
  image_request_invalid: { status: 400, title: 'This image cannot be asked for' },
  image_source_missing: { status: 404, title: 'This image does not exist' },
  image_too_large: { status: 413, title: 'This image is too large' },
  image_unreadable: { status: 415, title: 'This is not an image' },
  image_busy: { status: 429, title: 'Too many images at once', headers: { 'retry-after': '1' } },
  image_source_failed: { status: 502, title: 'The source of this image did not answer' },
  image_timeout: { status: 504, title: 'This image took too long' },
  image_loop: { status: 508, title: 'This address leads to itself' },
}

export const imagePage = ({ code, message }: ImageRefusal): SitePage => ({ ...pages[code], code, text: message })
