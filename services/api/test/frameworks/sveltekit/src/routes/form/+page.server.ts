export const actions = {
  default: async ({ request }) => ({ said: `Hello ${String((await request.formData()).get('name'))}` }),
}
